//! Row program to machine code through LLVM
