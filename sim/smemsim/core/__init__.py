"""The hardware without programs: its numbers, words, layouts, arithmetic and memories."""
