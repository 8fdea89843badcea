"""What the credit schemes can be told: the `[credit]` section of a run's configuration. No scheme reads all of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Std = Literal["sample", "population"]
Aggregation = Literal["turn", "trajectory", "token", "constant"]


class CreditSettings(BaseModel):
    """Settings of credit. `lambda` and `lam` are the same field."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)

    lam: Annotated[
        float,
        Field(ge=0, le=1, alias="lambda", description="share of the trace score in the reward; the rest is the outcome's"),
    ] = 0.1
    eps: Annotated[float, Field(ge=0, description="added to every standard deviation that divides")] = 1e-6
    std: Annotated[Std, Field(description="standard deviation with n - 1 (sample) or n (population)")] = "sample"
    alpha: Annotated[float, Field(ge=0, description="vtca: weight of progress in a turn's advantage")] = 4.0
    eta: Annotated[float, Field(ge=0, description="vtca: weight of a turn's trace cost")] = 0.3
    keep: Annotated[
        float, Field(ge=0.5, le=1, description="vtca: share of a positive increment that its own turn keeps")
    ] = 0.5
    transitive: Annotated[
        bool, Field(description="vtca: prerequisites through the transitive closure of use, not one hop")
    ] = False
    centred: Annotated[
        bool, Field(description="vtca: subtract the group's mean trace cost, so that cost alone moves no mean")
    ] = False
    omega: Annotated[float, Field(ge=0, description="gigpo: weight of the step advantage")] = 1.0
    gamma: Annotated[float, Field(ge=0, le=1, description="gigpo: discount of the return of a step")] = 0.95
    norm: Annotated[
        Literal["one", "std"], Field(description="gigpo: what divides, F: 1 or the standard deviation")
    ] = "one"
    components: Annotated[
        dict[str, float] | None,
        Field(description="gdpo: weight of each reward component; absent: outcome 1 - lambda, trace lambda"),
    ] = None
    aggregation: Annotated[
        Aggregation | None,
        Field(description="how token losses are averaged; absent: by turn (dr-grpo: constant)"),
    ] = None
    length: Annotated[
        int | None, Field(ge=1, description="aggregation constant: tokens L_max that every trajectory is divided by")
    ] = None
