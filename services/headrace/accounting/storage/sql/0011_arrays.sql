-- Elements of arrays that ended without having been granted anything, as ranges; and the results of arrays by index.

CREATE TABLE headrace.array_parts (
    array_job text NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    step bigint NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    ended_at timestamptz NOT NULL
);
CREATE INDEX array_parts_of ON headrace.array_parts (array_job);
COMMENT ON TABLE headrace.array_parts IS 'Elements of arrays that ended before they were granted anything: cancelled or dismissed. All others have rows in headrace.jobs.';
COMMENT ON COLUMN headrace.array_parts.array_job IS 'The job key of the array; its own row is in headrace.jobs.';
COMMENT ON COLUMN headrace.array_parts.first IS 'The first index; last is the last one, and step the distance between two.';

CREATE VIEW headrace.array_results AS
SELECT left(job, -7) AS array_job, right(job, 6)::bigint AS index, state, reason, exit_code, attempts, ended_at
FROM headrace.jobs WHERE job ~ '-[0-9]{6}$'
UNION ALL
SELECT array_job, index, state, reason, NULL, 0, ended_at
FROM headrace.array_parts CROSS JOIN LATERAL generate_series(first, last, step) AS index;
COMMENT ON VIEW headrace.array_results IS 'Elements of arrays that were granted something or have ended, by index.';
