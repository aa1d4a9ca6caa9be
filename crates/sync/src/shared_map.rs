//! Insertion into an open-addressed array of words by many threads at once.
