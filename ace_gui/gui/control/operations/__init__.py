"""Operations that the user starts and can stop: merges, scores, exports, comparisons."""
