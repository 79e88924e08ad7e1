-- A month of $1 jobs of one tenant, as accounting would have written it: 100 users, 10 policies, 5 profiles, 3 pools, four keys each.

-- name: jobs
INSERT INTO headrace.jobs
SELECT 'acme.user' || n % 100 || '.' || lpad(n::text, 26, '0'), 'acme', 'user' || n % 100, 'group' || n % 10, 'policy' || n % 10,
       'profile' || n % 5, '', '{"gpu": 126000, "cpu": 8000, "memory": 65536}', 1, true, 0,
       jsonb_build_object('project', 'p' || n % 50), n, began - interval '30 seconds',
       'succeeded', '', '', 1, 0, 0, began + length, n % 20 = 0, NULL
FROM month

-- name: attempts
INSERT INTO headrace.attempts
SELECT 'acme.user' || n % 100 || '.' || lpad(n::text, 26, '0'), 1, 'pool' || n % 3, began - interval '30 seconds', began, began,
       began + length, 'exited', 0, '', '', NULL, NULL
FROM month

-- name: leases
INSERT INTO headrace.leases
SELECT n * 1000, 'acme.user' || n % 100 || '.' || lpad(n::text, 26, '0'), 1, 0, 'acme', 'user' || n % 100, 'group' || n % 10,
       'policy' || n % 10, 'profile' || n % 5, 'pool' || n % 3, 'node' || n % 200, '{}',
       '{"gpu": 126000, "cpu": 8000, "memory": 65536, "job": 1}', true, began, began, began, NULL, began + length, began + length,
       'exited', 0, NULL, NULL, n % 20 = 0, false
FROM month

-- name: usage
INSERT INTO headrace.usage
SELECT n * 1000, key, began, began + length, CASE WHEN n % 3 = 0 THEN units ELSE 0 END, CASE WHEN n % 3 = 0 THEN 0 ELSE units END
FROM month CROSS JOIN (VALUES ('gpu', 126000), ('cpu', 8000), ('memory', 65536), ('job', 1)) AS each (key, units)

-- name: pieces
CREATE TEMP TABLE pieces AS
SELECT floor(extract(epoch FROM piece) / 3600)::integer AS hour, leases.group_name, leases.policy, leases.profile, leases.user_name,
       leases.service_account, leases.pool, leases.node, usage.key, usage.reserved, usage.borrowed,
       headrace.microseconds(least(usage.until, piece + interval '1 hour') - greatest(usage.since, piece)) AS long
FROM headrace.usage JOIN headrace.leases USING (lease)
CROSS JOIN LATERAL generate_series(date_trunc('hour', usage.since, 'UTC'), usage.until - interval '1 microsecond', interval '1 hour') AS piece

-- name: hours
INSERT INTO headrace.hours
SELECT hour, 'acme', group_name, policy, profile, user_name, service_account, pool, key, 1, sum(reserved * long), sum(borrowed * long), 0, 0, 0
FROM pieces GROUP BY hour, group_name, policy, profile, user_name, service_account, pool, key

-- name: node_hours
INSERT INTO headrace.node_hours
SELECT hour, 'acme', pool, node, key, 1, sum(reserved * long), sum(borrowed * long), 0, 0 FROM pieces GROUP BY hour, pool, node, key

-- name: days
INSERT INTO headrace.days
SELECT hour / 24, tenant, group_name, policy, profile, user_name, service_account, pool, key, tariff, sum(reserved), sum(borrowed), 0, 0, 0
FROM headrace.hours GROUP BY hour / 24, tenant, group_name, policy, profile, user_name, service_account, pool, key, tariff
