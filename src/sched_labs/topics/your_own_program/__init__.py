"""The chapter *Your own program*: the book's instruments on a program that the book does not know."""
