-- From here on, bodies are stored as spans of pieces, which releases before this one cannot read.
SELECT 1;
