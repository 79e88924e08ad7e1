-- Sums by hour, by hour and node, and what was kept for jobs that waited. They cannot be told from what was stored before, so the books
-- are made anew: everything but the copies of the records is emptied, and the ledger is read again from its start.

TRUNCATE headrace.facts, headrace.jobs, headrace.unserved, headrace.attempts, headrace.leases, headrace.usage, headrace.suspensions,
    headrace.preemptions, headrace.victims, headrace.reservations, headrace.capacity, headrace.nodes, headrace.tariffs, headrace.prices,
    headrace.days;
UPDATE headrace.position SET sequence = 0, digest = '', now = 'epoch';

ALTER TABLE headrace.days ADD COLUMN kept numeric NOT NULL;
COMMENT ON COLUMN headrace.days.kept IS 'Free units kept for jobs that waited (R16, R27), charged to nobody.';

CREATE TABLE headrace.hours (
    hour integer NOT NULL,
    tenant text NOT NULL,
    group_name text NOT NULL,
    policy text NOT NULL,
    profile text NOT NULL,
    user_name text NOT NULL,
    service_account boolean NOT NULL,
    pool text NOT NULL,
    key text NOT NULL,
    tariff bigint NOT NULL,
    reserved numeric NOT NULL,
    borrowed numeric NOT NULL,
    suspended numeric NOT NULL,
    waiting numeric NOT NULL,
    kept numeric NOT NULL,
    PRIMARY KEY (tenant, hour, group_name, policy, profile, user_name, service_account, pool, key, tariff)
) WITH (fillfactor = 70);
COMMENT ON TABLE headrace.hours IS 'The same as headrace.days, by hour: for days and months of any time zone, and for hours.';
COMMENT ON COLUMN headrace.hours.hour IS 'Hours since 1970-01-01 00:00 UTC.';

CREATE TABLE headrace.node_hours (
    hour integer NOT NULL,
    tenant text NOT NULL,
    pool text NOT NULL,
    node text NOT NULL,
    key text NOT NULL,
    tariff bigint NOT NULL,
    reserved numeric NOT NULL,
    borrowed numeric NOT NULL,
    suspended numeric NOT NULL,
    kept numeric NOT NULL,
    PRIMARY KEY (tenant, hour, pool, node, key, tariff)
) WITH (fillfactor = 70);
COMMENT ON TABLE headrace.node_hours IS 'What each tenant had on each node, by hour of UTC, in units times microseconds. What still lasts is in usage and suspensions.';

CREATE TABLE headrace.kept (
    job text NOT NULL,
    node text NOT NULL,
    key text NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz,
    units bigint NOT NULL,
    tenant text NOT NULL,
    group_name text NOT NULL,
    policy text NOT NULL,
    profile text NOT NULL,
    user_name text NOT NULL,
    service_account boolean NOT NULL,
    pool text NOT NULL,
    PRIMARY KEY (job, node, key, since)
);
CREATE INDEX kept_open ON headrace.kept (job) WHERE until IS NULL;
CREATE INDEX kept_until ON headrace.kept (until) WHERE until IS NOT NULL;
COMMENT ON TABLE headrace.kept IS 'Free units of a node that were kept for a job that waited: nominated for a preemptor (R27), or held back from those who rank below it (R16). Charged to nobody (R37).';
COMMENT ON COLUMN headrace.kept.until IS 'Null while it lasts.';
