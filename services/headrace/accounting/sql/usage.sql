-- What was used, by period. $1: the tenant, or empty for all of them. {names}: what it is grouped by, as an array of texts.
-- Units times microseconds, exactly. $2: the bounds of periods that touch, of which {begins} is the first and {ends} the last, and $3 the
-- labels among the names; of whole days their numbers instead. What still lasts counts up to the time of the ledger at the position.

-- name: days
SELECT piece.number, days.tenant, days.policy, days.pool, {names} AS names, days.key, days.tariff,
       sum(days.reserved), sum(days.borrowed), sum(days.suspended), sum(days.waiting)
FROM unnest($2::integer[], $3::integer[], $4::integer[]) AS piece (number, first, next)
JOIN headrace.days ON days.day >= piece.first AND days.day < piece.next
WHERE $1::text = '' OR days.tenant = $1
GROUP BY 1, 2, 3, 4, 5, 6, 7

-- name: cut
-- A span in seconds, as a double, is rounded to the very microsecond: that is exact for sixty years, and nothing lasts so long.
SELECT piece.number, told.tenant, told.policy, told.pool, told.names, told.key, sum(told.one::numeric * span.long), sum(told.two::numeric * span.long)
FROM ({told}) AS told
CROSS JOIN LATERAL generate_series(
    greatest(width_bucket(told.since, $2::timestamptz[]), 1),
    least(width_bucket(told.until - interval '1 microsecond', $2::timestamptz[]), cardinality($2::timestamptz[]) - 1)
) AS piece (number)
CROSS JOIN LATERAL (
    SELECT (date_part('epoch',
        least(told.until, ($2::timestamptz[])[piece.number + 1]) - greatest(told.since, ($2::timestamptz[])[piece.number])
    ) * 1000000)::bigint AS long
) AS span
WHERE told.until > told.since AND told.until > {begins} AND told.since < {ends}
GROUP BY 1, 2, 3, 4, 5, 6

-- name: held
SELECT leases.tenant, leases.policy, leases.pool, {names} AS names, usage.key, usage.since, usage.until,
       usage.reserved AS one, usage.borrowed AS two
FROM headrace.usage JOIN headrace.leases USING (lease) {jobs}
WHERE ($1::text = '' OR leases.tenant = $1) AND usage.until > {begins} AND usage.since < {ends}

-- name: held_still
SELECT leases.tenant, leases.policy, leases.pool, {names} AS names, usage.key, usage.since, position.now AS until,
       usage.reserved AS one, usage.borrowed AS two
FROM headrace.usage JOIN headrace.leases USING (lease) {jobs} CROSS JOIN headrace.position
WHERE ($1::text = '' OR leases.tenant = $1) AND usage.until IS NULL

-- name: lost
SELECT leases.tenant, leases.policy, leases.pool, {names} AS names, usage.key, greatest(usage.since, leases.lost_from) AS since,
       least(coalesce(usage.until, position.now), leases.lost_until) AS until, usage.reserved AS one, usage.borrowed AS two
FROM headrace.leases JOIN headrace.usage USING (lease) {jobs} CROSS JOIN headrace.position
WHERE ($1::text = '' OR leases.tenant = $1) AND leases.lost_until > {begins} AND leases.lost_from < {ends}

-- name: suspended
SELECT leases.tenant, leases.policy, leases.pool, {names} AS names, 'gpu' AS key, suspensions.since, suspensions.until,
       suspensions.units AS one, 0 AS two
FROM headrace.suspensions JOIN headrace.leases USING (lease) {jobs}
WHERE ($1::text = '' OR leases.tenant = $1) AND suspensions.until > {begins} AND suspensions.since < {ends}

-- name: suspended_still
SELECT leases.tenant, leases.policy, leases.pool, {names} AS names, 'gpu' AS key, suspensions.since, position.now AS until,
       suspensions.units AS one, 0 AS two
FROM headrace.suspensions JOIN headrace.leases USING (lease) {jobs} CROSS JOIN headrace.position
WHERE ($1::text = '' OR leases.tenant = $1) AND suspensions.until IS NULL

-- name: waited
SELECT jobs.tenant, jobs.policy, '' AS pool, {names} AS names, asked.key, wait.since, wait.until, asked.units AS one, 0 AS two
FROM (
    SELECT job, waiting_since AS since, granted_at AS until FROM headrace.attempts
    WHERE granted_at > {begins} AND waiting_since < {ends}
    UNION ALL
    SELECT job, since, until FROM headrace.unserved WHERE until > {begins} AND since < {ends}
) AS wait
JOIN headrace.jobs USING (job) CROSS JOIN LATERAL headrace.asked(jobs.request, jobs.replicas) AS asked
WHERE $1::text = '' OR jobs.tenant = $1

-- name: waits_still
SELECT jobs.tenant, jobs.policy, '' AS pool, {names} AS names, asked.key, jobs.waiting_since AS since, position.now AS until,
       asked.units AS one, 0 AS two
FROM headrace.jobs CROSS JOIN headrace.position CROSS JOIN LATERAL headrace.asked(jobs.request, jobs.replicas) AS asked
WHERE ($1::text = '' OR jobs.tenant = $1) AND jobs.waiting_since IS NOT NULL

-- name: jobs
-- Most jobs held one lease ever: those are counted as they come, and only the others are looked at twice.
WITH several AS MATERIALIZED (SELECT DISTINCT job FROM headrace.leases WHERE attempt > 1 OR rank > 0),
held AS NOT MATERIALIZED (
    SELECT piece.number, {names} AS names, leases.amounts, leases.job
    FROM headrace.leases {jobs} CROSS JOIN headrace.position
    CROSS JOIN LATERAL (SELECT coalesce(leases.ended_at, position.now) AS until) AS ends
    CROSS JOIN LATERAL generate_series(
        greatest(width_bucket(leases.granted_at, $2::timestamptz[]), 1),
        least(width_bucket(ends.until - interval '1 microsecond', $2::timestamptz[]), cardinality($2::timestamptz[]) - 1)
    ) AS piece (number)
    WHERE ($1::text = '' OR leases.tenant = $1) AND ends.until > leases.granted_at
      AND ends.until > {begins} AND leases.granted_at < {ends}
)
SELECT number, names, amounts::text, count(*)
FROM held WHERE NOT EXISTS (SELECT FROM several WHERE several.job = held.job)
GROUP BY number, names, amounts
UNION ALL
SELECT number, names, keys, count(*)
FROM (
    SELECT DISTINCT number, names, jsonb_path_query_array(amounts - 'job', '$.keyvalue().key')::text AS keys, job
    FROM held WHERE EXISTS (SELECT FROM several WHERE several.job = held.job)
) AS each
GROUP BY number, names, keys

-- name: tariffs
SELECT tariff, pool, tenant, since, spot FROM headrace.tariffs ORDER BY since, tariff

-- name: prices
SELECT tariff, pool, tenant, key, (on_demand * 1000000)::bigint, (reserved * 1000000)::bigint FROM headrace.prices

-- name: reservations
SELECT tenant, policy, key, number, since, amount, group_name FROM headrace.reservations
WHERE $1::text = '' OR tenant = $1 ORDER BY tenant, policy, key, since, number

-- name: has_tenant
SELECT EXISTS (SELECT FROM headrace.days WHERE tenant = $1) OR EXISTS (SELECT FROM headrace.jobs WHERE tenant = $1)

-- name: first
SELECT min(now) FROM (SELECT now FROM headrace.records WHERE now IS NOT NULL ORDER BY sequence LIMIT 1) AS first

-- name: unfinished
SELECT EXISTS (
    SELECT FROM headrace.attempts JOIN headrace.jobs USING (job)
    WHERE attempts.cause IS NULL AND attempts.granted_at < $2 AND jobs.tenant = $1
)
