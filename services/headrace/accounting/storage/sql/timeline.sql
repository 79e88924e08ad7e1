-- Use of pools and events by parts of a period. $1: bounds of the parts, in order.

-- name: records_before
-- The last record before each bound: a binary search for all bounds at once, because times of records hardly go back.
WITH RECURSIVE search (bound, low, high) AS (
    SELECT bound, 0::bigint, $2::bigint FROM unnest($1::timestamptz[]) AS bound
    UNION ALL
    SELECT bound,
           CASE WHEN now IS NULL OR now < bound THEN middle ELSE low END,
           CASE WHEN now IS NULL OR now < bound THEN high ELSE middle - 1 END
    FROM (
        SELECT bound, low, high, (low + high + 1) / 2 AS middle,
               (SELECT records.now FROM headrace.records
                WHERE records.sequence <= (low + high + 1) / 2 AND records.now IS NOT NULL
                ORDER BY records.sequence DESC LIMIT 1) AS now
        FROM search WHERE low < high
    ) AS step
)
SELECT low FROM search WHERE low = high ORDER BY bound

-- name: capacity
SELECT pool, since, usable FROM headrace.capacity
WHERE key = 'gpu' AND since < ($1::timestamptz[])[cardinality($1::timestamptz[])] ORDER BY pool, number

-- name: preemptions
-- $2, $3: the records that the period lies between; $4: a tenant, or empty for all.
SELECT width_bucket(ordered_at, $1::timestamptz[]) AS number, pool, count(*) FROM headrace.preemptions
WHERE ordered > $2 AND ordered <= $3
  AND ($4::text = '' OR split_part(job, '.', 1) = $4 OR EXISTS (
      SELECT FROM headrace.victims WHERE victims.preemption = preemptions.preemption AND split_part(victims.job, '.', 1) = $4))
GROUP BY 1, 2

-- name: growth
SELECT width_bucket(ordered_at, $1::timestamptz[]) AS number, pool, count(*) FROM headrace.instances
WHERE ordered_at >= ($1::timestamptz[])[1] AND ordered_at < ($1::timestamptz[])[cardinality($1::timestamptz[])]
GROUP BY 1, 2

-- name: changes
-- $1: the last record before each bound. Of a tenant: what its own documents are called.
SELECT width_bucket(sequence, $1::bigint[]) AS number, count(*)
FROM (
    SELECT facts.sequence - 1 AS sequence FROM headrace.facts
    WHERE type ~ '^(tenant|user|group|pool|profile|policy|object)\.'
      AND facts.sequence > ($1::bigint[])[1] AND facts.sequence <= ($1::bigint[])[cardinality($1::bigint[])]
      AND ($2::text = '' OR about = $2 OR about ^@ ($2 || '/'))
) AS changed
GROUP BY 1
