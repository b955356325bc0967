-- Lists runs in the order of their creation; their ids need not sort by time.
CREATE INDEX strand_main ON forum.strand (log, id) WHERE name = 'main';
