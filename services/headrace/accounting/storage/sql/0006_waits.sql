-- Waits are found by both of their ends, as use is: by one alone, half of a month was read for every half hour that no sum of hours has.

CREATE INDEX attempts_waiting ON headrace.attempts USING brin (waiting_since) WITH (pages_per_range = 32, autosummarize = on);
