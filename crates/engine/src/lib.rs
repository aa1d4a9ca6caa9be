//! The engine: sessions that run SQL
