//! Tables, partials and their merge.
