-- What was used in [$2, $3), grouped by the columns named in $4; $1 is the tenant that asks. Units times microseconds, exactly.
-- What still lasts counts up to the time of the ledger at the position.

-- name: usage
SELECT CASE WHEN 'tenant' = ANY ($4::text[]) THEN tenant END AS tenant,
       CASE WHEN 'group' = ANY ($4) THEN group_name END AS "group",
       CASE WHEN 'user' = ANY ($4) THEN user_name END AS "user",
       CASE WHEN 'pool' = ANY ($4) THEN pool END AS pool,
       CASE WHEN 'policy' = ANY ($4) THEN policy END AS policy,
       CASE WHEN 'profile' = ANY ($4) THEN profile END AS profile,
       CASE WHEN 'queue' = ANY ($4) THEN policy || '/' || profile END AS queue,
       CASE WHEN 'job' = ANY ($4) THEN job END AS job,
       NULL::text AS day,
       key,
       sum(reserved * headrace.microseconds(until - since)) AS reserved,
       sum(borrowed * headrace.microseconds(until - since)) AS borrowed,
       coalesce(sum((reserved + borrowed) * headrace.microseconds(least(until, lost_until) - greatest(since, lost_from)))
           FILTER (WHERE lost_from < until AND lost_until > since), 0) AS lost,
       count(DISTINCT job) AS jobs
FROM (
    SELECT greatest(use.since, $2) AS since, least(use.until, $3) AS until, use.reserved, use.borrowed, use.lost_from,
           use.lost_until, use.tenant, use.group_name, use.user_name, use.pool, use.policy, use.profile, use.job, use.key
    FROM headrace.use WHERE use.tenant = $1 AND use.since < $3 AND use.until > $2
) AS cut
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
LIMIT $5

-- name: usage_by_day
SELECT CASE WHEN 'tenant' = ANY ($4::text[]) THEN tenant END AS tenant,
       CASE WHEN 'group' = ANY ($4) THEN group_name END AS "group",
       CASE WHEN 'user' = ANY ($4) THEN user_name END AS "user",
       CASE WHEN 'pool' = ANY ($4) THEN pool END AS pool,
       CASE WHEN 'policy' = ANY ($4) THEN policy END AS policy,
       CASE WHEN 'profile' = ANY ($4) THEN profile END AS profile,
       CASE WHEN 'queue' = ANY ($4) THEN policy || '/' || profile END AS queue,
       CASE WHEN 'job' = ANY ($4) THEN job END AS job,
       day,
       key,
       sum(reserved * headrace.microseconds(until - since)) AS reserved,
       sum(borrowed * headrace.microseconds(until - since)) AS borrowed,
       coalesce(sum((reserved + borrowed) * headrace.microseconds(least(until, lost_until) - greatest(since, lost_from)))
           FILTER (WHERE lost_from < until AND lost_until > since), 0) AS lost,
       count(DISTINCT job) AS jobs
FROM (
    SELECT greatest(use.since, $2, days.start) AS since, least(use.until, $3, days.start + interval '24 hours') AS until,
           to_char(days.start AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, use.reserved, use.borrowed, use.lost_from, use.lost_until,
           use.tenant, use.group_name, use.user_name, use.pool, use.policy, use.profile, use.job, use.key
    FROM headrace.use CROSS JOIN LATERAL generate_series(
        date_trunc('day', greatest(use.since, $2), 'UTC'), least(use.until, $3) - interval '1 microsecond', interval '24 hours'
    ) AS days (start)
    WHERE use.tenant = $1 AND use.since < $3 AND use.until > $2
) AS cut
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
LIMIT $5
