-- What was used, by period. $1: the tenant, or empty for all of them. {names}: what it is grouped by, as an array of texts.
-- Units times microseconds, exactly. $2: the bounds of adjacent periods; the first is {begins}, the last {ends}. $3: the
-- labels among the names. For whole days: their numbers instead. What still lasts counts up to the time of the ledger at the position.

-- name: days
SELECT piece.number, days.tenant, days.policy, days.pool, {names} AS names, days.key, days.tariff,
       sum(days.reserved), sum(days.borrowed), sum(days.suspended), sum(days.waiting), sum(days.kept),
       sum(days.provider_lost)
FROM unnest($2::integer[], $3::integer[], $4::integer[]) AS piece (number, first, next)
JOIN headrace.days ON days.day >= piece.first AND days.day < piece.next
WHERE $1::text = '' OR days.tenant = $1
GROUP BY 1, 2, 3, 4, 5, 6, 7

-- name: hours
SELECT piece.number, hours.tenant, hours.policy, hours.pool, {names} AS names, hours.key, hours.tariff,
       sum(hours.reserved), sum(hours.borrowed), sum(hours.suspended), sum(hours.waiting), sum(hours.kept),
       sum(hours.provider_lost)
FROM unnest($2::integer[], $3::integer[], $4::integer[]) AS piece (number, first, next)
JOIN headrace.hours ON hours.hour >= piece.first AND hours.hour < piece.next
WHERE $1::text = '' OR hours.tenant = $1
GROUP BY 1, 2, 3, 4, 5, 6, 7

-- name: node_hours
SELECT piece.number, hours.tenant, '' AS policy, hours.pool, {names} AS names, hours.key, hours.tariff,
       sum(hours.reserved), sum(hours.borrowed), sum(hours.suspended), 0 AS waiting, sum(hours.kept),
       sum(hours.provider_lost)
FROM unnest($2::integer[], $3::integer[], $4::integer[]) AS piece (number, first, next)
JOIN headrace.node_hours AS hours ON hours.hour >= piece.first AND hours.hour < piece.next
WHERE $1::text = '' OR hours.tenant = $1
GROUP BY 1, 2, 3, 4, 5, 6, 7

-- name: waited_hours
-- Of jobs that wait no node is known: they are in the sums by account.
SELECT piece.number, hours.tenant, '' AS policy, '' AS pool, {names} AS names, hours.key, 0 AS tariff,
       0 AS reserved, 0 AS borrowed, 0 AS suspended, sum(hours.waiting), 0 AS kept, 0 AS provider_lost
FROM unnest($2::integer[], $3::integer[], $4::integer[]) AS piece (number, first, next)
JOIN headrace.hours ON hours.hour >= piece.first AND hours.hour < piece.next AND hours.waiting <> 0
WHERE $1::text = '' OR hours.tenant = $1
GROUP BY 1, 2, 3, 4, 5, 6, 7

-- name: one
-- A span in seconds, as a double, is rounded to the very microsecond: that is exact for sixty years, and nothing lasts so long.
SELECT 1 AS number, tenant, policy, pool, {source_names} AS names, key, sum(one::numeric * long), sum(two::numeric * long)
FROM (
    SELECT *, (date_part('epoch', least(until, {ends}) - greatest(since, {begins})) * 1000000)::bigint AS long
    FROM ({source}) AS source
    WHERE until > since AND until > {begins} AND since < {ends}
) AS source
GROUP BY tenant, policy, pool, {groups} key

-- name: many
-- The same of periods that touch: an interval counts in each that it reaches into.
SELECT number, tenant, policy, pool, {source_names} AS names, key, sum(one::numeric * long), sum(two::numeric * long)
FROM (
    SELECT *, (date_part('epoch',
        least(until, ($2::timestamptz[])[number + 1]) - greatest(since, ($2::timestamptz[])[number])
    ) * 1000000)::bigint AS long
    FROM (
        SELECT *, generate_series(
            greatest(width_bucket(since, $2::timestamptz[]), 1),
            least(width_bucket(until - interval '1 microsecond', $2::timestamptz[]), cardinality($2::timestamptz[]) - 1)
        ) AS number
        FROM ({source}) AS source
        WHERE until > since AND until > {begins} AND since < {ends}
    ) AS source
) AS source
GROUP BY number, tenant, policy, pool, {groups} key

-- name: held
SELECT leases.tenant, leases.policy, leases.pool, {named} usage.key, usage.since, usage.until,
       usage.reserved AS one, usage.borrowed AS two
FROM headrace.usage JOIN headrace.leases USING (lease) {jobs}
WHERE ($1::text = '' OR leases.tenant = $1) AND usage.until > {begins} AND usage.since < {ends} {only}

-- name: held_still
SELECT leases.tenant, leases.policy, leases.pool, {named} usage.key, usage.since, position.now AS until,
       usage.reserved AS one, usage.borrowed AS two
FROM headrace.usage JOIN headrace.leases USING (lease) {jobs} CROSS JOIN headrace.position
WHERE ($1::text = '' OR leases.tenant = $1) AND usage.until IS NULL {only}

-- name: lost
SELECT leases.tenant, leases.policy, leases.pool, {named} usage.key, greatest(usage.since, leases.lost_from) AS since,
       least(coalesce(usage.until, position.now), leases.lost_until) AS until, usage.reserved AS one, usage.borrowed AS two
FROM headrace.leases JOIN headrace.usage USING (lease) {jobs} CROSS JOIN headrace.position
WHERE ($1::text = '' OR leases.tenant = $1) AND leases.lost_until > {begins} AND leases.lost_from < {ends} {only}

-- name: suspended
SELECT leases.tenant, leases.policy, leases.pool, {named} 'gpu' AS key, suspensions.since, suspensions.until,
       suspensions.units AS one, 0 AS two
FROM headrace.suspensions JOIN headrace.leases USING (lease) {jobs}
WHERE ($1::text = '' OR leases.tenant = $1) AND suspensions.until > {begins} AND suspensions.since < {ends} {only}

-- name: suspended_still
SELECT leases.tenant, leases.policy, leases.pool, {named} 'gpu' AS key, suspensions.since, position.now AS until,
       suspensions.units AS one, 0 AS two
FROM headrace.suspensions JOIN headrace.leases USING (lease) {jobs} CROSS JOIN headrace.position
WHERE ($1::text = '' OR leases.tenant = $1) AND suspensions.until IS NULL {only}

-- name: provider_lost
-- As of waits, what was held stands where others have a key.
SELECT leases.tenant, leases.policy, leases.pool, {named} jsonb_build_array(leases.amounts, 1) AS key, leases.granted_at AS since,
       coalesce(leases.charged_at, leases.ended_at) AS until, 1 AS one, 0 AS two
FROM headrace.leases {jobs}
WHERE ($1::text = '' OR leases.tenant = $1) AND coalesce(leases.charged_at, leases.ended_at) > {begins}
  AND leases.granted_at < {ends} {only}

-- name: provider_loses_still
SELECT leases.tenant, leases.policy, leases.pool, {named} jsonb_build_array(leases.amounts, 1) AS key, leases.granted_at AS since,
       position.now AS until, 1 AS one, 0 AS two
FROM headrace.attempts JOIN headrace.leases USING (job, attempt) {jobs} CROSS JOIN headrace.position
WHERE ($1::text = '' OR leases.tenant = $1) AND attempts.cause IS NULL AND leases.charged_at IS NULL AND leases.ended_at IS NULL {only}

-- name: kept
SELECT kept.tenant, kept.policy, kept.pool, {named} kept.key, kept.since, kept.until, kept.units AS one, 0 AS two
FROM headrace.kept {jobs}
WHERE ($1::text = '' OR kept.tenant = $1) AND kept.until > {begins} AND kept.since < {ends} {only}

-- name: kept_still
SELECT kept.tenant, kept.policy, kept.pool, {named} kept.key, kept.since, position.now AS until, kept.units AS one, 0 AS two
FROM headrace.kept {jobs} CROSS JOIN headrace.position
WHERE ($1::text = '' OR kept.tenant = $1) AND kept.until IS NULL {only}

-- name: waited
-- The request is in the column of the key, because there are few different ones; the reader splits it by key.
SELECT jobs.tenant, jobs.policy, '' AS pool, {named} jsonb_build_array(jobs.request, jobs.replicas) AS key, wait.since, wait.until,
       1 AS one, 0 AS two
FROM (
    SELECT job, waiting_since AS since, granted_at AS until FROM headrace.attempts
    WHERE granted_at > {begins} AND waiting_since < {ends}
    UNION ALL
    SELECT job, since, until FROM headrace.unserved WHERE until > {begins} AND since < {ends}
) AS wait
JOIN headrace.jobs USING (job)
WHERE ($1::text = '' OR jobs.tenant = $1) {only}

-- name: waits_still
SELECT jobs.tenant, jobs.policy, '' AS pool, {named} jsonb_build_array(jobs.request, jobs.replicas) AS key, jobs.waiting_since AS since,
       position.now AS until, 1 AS one, 0 AS two
FROM headrace.jobs CROSS JOIN headrace.position
WHERE ($1::text = '' OR jobs.tenant = $1) AND jobs.waiting_since IS NOT NULL {only}

-- name: jobs
-- Most jobs held one lease ever: those are counted as they come, and only the others are looked at twice.
WITH several AS MATERIALIZED (SELECT DISTINCT job FROM headrace.leases WHERE attempt > 1 OR rank > 0),
held AS NOT MATERIALIZED (
    SELECT {piece} AS number, source.*
    FROM (
        SELECT {named} leases.amounts, leases.job, leases.granted_at AS since, coalesce(leases.ended_at, position.now) AS until
        FROM headrace.leases {jobs} CROSS JOIN headrace.position
        WHERE ($1::text = '' OR leases.tenant = $1) AND leases.granted_at < {ends} {only}
    ) AS source
    WHERE until > since AND until > {begins}
)
SELECT number, {source_names} AS names, amounts::text, count(*)
FROM held WHERE NOT EXISTS (SELECT FROM several WHERE several.job = held.job)
GROUP BY number, {groups} amounts
UNION ALL
SELECT number, {source_names} AS names, keys, count(*)
FROM (
    SELECT DISTINCT number, {groups} jsonb_path_query_array(amounts - 'job', '$.keyvalue().key')::text AS keys, job
    FROM held WHERE EXISTS (SELECT FROM several WHERE several.job = held.job)
) AS each
GROUP BY number, {groups} keys

-- name: is_busy
-- Whether more than $3 intervals lie in a period: then its jobs are read in several parts.
SELECT count(*) > $3 FROM (SELECT FROM headrace.usage WHERE until > $1 AND since < $2 LIMIT $3 + 1) AS found

-- name: jobs_behind
SELECT job FROM headrace.jobs
WHERE job > $2 AND ($1::text = '' OR tenant = $1) AND admitted_at < $4 AND (ended_at IS NULL OR ended_at > $3)
ORDER BY job LIMIT $5

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

-- name: instances
SELECT instance, instances.pool, provider, provider_id, offer, market, price, created_at, joined_at,
       coalesce(ended_at, $3), coalesce(nodes.gpus, 0)
FROM headrace.instances LEFT JOIN headrace.nodes ON nodes.node = instance
WHERE created_at IS NOT NULL AND created_at < $2 AND coalesce(ended_at, $3) > $1

-- name: held_on_instances
SELECT leases.node, leases.tenant, leases.granted_at, coalesce(leases.ended_at, $3),
       coalesce((leases.amounts ->> 'gpu')::bigint, 0)
FROM headrace.leases JOIN headrace.instances ON instance = leases.node
WHERE leases.granted_at < $2 AND coalesce(leases.ended_at, $3) > $1

-- name: instances_last
SELECT EXISTS (SELECT FROM headrace.instances WHERE created_at < $1 AND ended_at IS NULL)
