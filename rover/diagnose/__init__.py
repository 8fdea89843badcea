"""Environment defect or agent mistake: probes, findings, diagnosis; injectors of known defects."""
