"""The kit for Blackwell: probes of tcgen05, tensor memory and the transfers that sm_90 lacks. PLAN.md lists what
each of them settles."""
