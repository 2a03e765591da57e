"""Judgement: what is wrong with a scenario, a run or a result, which field it is, and what would be right."""
