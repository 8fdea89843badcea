"""Model traffic of an agent program, out of its box: the part that runs inside, and what both sides share.

Everything in this package is sent into the box as text and runs there on whatever Python the box has (3.8 or
later, standard library alone), so it imports nothing of rover and its modules name each other relatively.

    frames   messages on the channel, with limits on both sides
    http     requests as bytes, from clients that may be broken or hostile
    guard    a filter that keeps an agent from killing itself and looking like a victim
    inside   the relay: starts the agent, listens on the box's own 127.0.0.1, carries requests and answers
"""
