-- How many gates wait is asked by every scrape of metrics; most alarms are those of runs.
CREATE INDEX alarm_gate ON alarm (log, run) WHERE strand >= 'gate/' AND strand < 'gate0';
