"""How labels leave: soft, expanded, sampled or rounded. Nothing here takes the most likely class of a row, which would undo parity."""
