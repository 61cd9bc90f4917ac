//! CQL as bytes and as text: frames, lexer, parser, AST.
