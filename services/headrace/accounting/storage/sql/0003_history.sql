-- Names of one tenant lie beside each other only in the order of bytes, whatever order the database has for texts; and a job is asked for
-- by its id, which is the end of its name.

DROP INDEX headrace.facts_about;
CREATE INDEX facts_about ON headrace.facts (about COLLATE "C", sequence);
CREATE INDEX preemptions_ordered ON headrace.preemptions (ordered);
CREATE INDEX jobs_id ON headrace.jobs (right(job, 26));
