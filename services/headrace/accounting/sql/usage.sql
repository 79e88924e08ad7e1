-- What the tenant $1 used in [$2, $3), grouped by what is named in $4, at most $5 lines. Units times microseconds, exactly.
-- What still lasts counts up to the time of the ledger at the position. By day, an interval is cut at each midnight of UTC.

-- name: usage
SELECT CASE WHEN 'tenant' = ANY ($4::text[]) THEN tenant END AS tenant,
       CASE WHEN 'group' = ANY ($4) THEN group_name END AS "group",
       CASE WHEN 'user' = ANY ($4) THEN user_name END AS "user",
       CASE WHEN 'pool' = ANY ($4) THEN pool END AS pool,
       CASE WHEN 'policy' = ANY ($4) THEN policy END AS policy,
       CASE WHEN 'profile' = ANY ($4) THEN profile END AS profile,
       CASE WHEN 'queue' = ANY ($4) THEN policy || '/' || profile END AS queue,
       CASE WHEN 'job' = ANY ($4) THEN job END AS job,
       CASE WHEN 'day' = ANY ($4) THEN to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD') END AS day,
       key,
       sum(reserved * headrace.microseconds(until - since)) AS reserved,
       sum(borrowed * headrace.microseconds(until - since)) AS borrowed,
       coalesce(sum((reserved + borrowed) * headrace.microseconds(least(until, lost_until) - greatest(since, lost_from)))
           FILTER (WHERE lost_from < until AND lost_until > since), 0) AS lost,
       count(DISTINCT job) AS jobs
FROM (
    SELECT greatest(use.since, $2, piece.start) AS since, least(use.until, $3, piece.start + by.step) AS until,
           use.reserved, use.borrowed, use.lost_from, use.lost_until,
           use.tenant, use.group_name, use.user_name, use.pool, use.policy, use.profile, use.job, use.key
    FROM (SELECT CASE WHEN 'day' = ANY ($4::text[]) THEN interval '24 hours' ELSE interval '1000000 days' END AS step) AS by
    CROSS JOIN headrace.use
    CROSS JOIN LATERAL generate_series(
        date_trunc('day', greatest(use.since, $2), 'UTC'), least(use.until, $3) - interval '1 microsecond', by.step
    ) AS piece (start)
    WHERE use.tenant = $1 AND use.since < $3 AND use.until > $2
) AS cut
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
LIMIT $5
