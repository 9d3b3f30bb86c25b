"""The method that needs no tuning: its members, its folds, and what out-of-fold rows decide."""
