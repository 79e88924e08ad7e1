-- Changes of documents, and orders of instances, are read by period (reports/timeline.py).

CREATE INDEX facts_changes ON headrace.facts (sequence) WHERE type ~ '^(tenant|user|group|pool|profile|policy|object)\.';
CREATE INDEX instances_ordered ON headrace.instances (ordered_at);
