-- Prices, waits, suspensions, service accounts, and sums by day. What is kept from now on cannot be told from what was kept before, so
-- the books are made anew: everything but the copies of the records is emptied, and the ledger is read again from its start.

TRUNCATE headrace.facts, headrace.jobs, headrace.attempts, headrace.leases, headrace.usage, headrace.preemptions, headrace.victims,
    headrace.reservations, headrace.capacity, headrace.nodes;
UPDATE headrace.position SET sequence = 0, digest = '', now = 'epoch';

ALTER TABLE headrace.jobs
    ADD COLUMN service_account boolean NOT NULL,
    ADD COLUMN waiting_since timestamptz;
CREATE INDEX jobs_waiting ON headrace.jobs (tenant) WHERE waiting_since IS NOT NULL;
CREATE INDEX jobs_open ON headrace.jobs (job) WHERE ended_at IS NULL;
COMMENT ON COLUMN headrace.jobs.group_name IS 'The group of its policy when the job was admitted; empty for a rejected job.';
COMMENT ON COLUMN headrace.jobs.service_account IS 'Whether its user is one that a group names as a service account.';
COMMENT ON COLUMN headrace.jobs.waiting_since IS 'Since when it is pending; null where it is not.';

CREATE TABLE headrace.unserved (
    job text NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (job, since)
);
COMMENT ON TABLE headrace.unserved IS 'Waits that no attempt ended: the job was cancelled or dismissed. All other waits are in attempts, and in jobs while they last.';

ALTER TABLE headrace.leases
    ADD COLUMN service_account boolean NOT NULL,
    ADD COLUMN over_budget boolean NOT NULL;
CREATE INDEX leases_lost ON headrace.leases (tenant, lost_until) WHERE lost_until IS NOT NULL;
COMMENT ON COLUMN headrace.leases.over_budget IS 'Granted over the policy''s budget: borrowed, whatever the reservation has left (R33).';

CREATE TABLE headrace.suspensions (
    lease bigint NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz,
    units bigint NOT NULL,
    PRIMARY KEY (lease, since)
);
CREATE INDEX suspensions_open ON headrace.suspensions (lease) WHERE until IS NULL;
COMMENT ON TABLE headrace.suspensions IS 'While its job was suspended a lease was charged no GPU (R29, R37); units are what it would have held.';
COMMENT ON COLUMN headrace.suspensions.until IS 'Null while it lasts.';

ALTER TABLE headrace.reservations ADD COLUMN group_name text NOT NULL;
COMMENT ON COLUMN headrace.reservations.group_name IS 'The group of the policy since then: on its name goes what of the reservation is idle.';

CREATE TABLE headrace.tariffs (
    tariff bigint NOT NULL,
    pool text NOT NULL,
    tenant text NOT NULL,
    since timestamptz NOT NULL,
    spot boolean NOT NULL,
    PRIMARY KEY (pool, tenant, tariff)
);
COMMENT ON TABLE headrace.tariffs IS 'Since when which prices are in force in a pool, for a tenant with rates of its own there, or (tenant empty) for all others. A new tariff never changes what was used before it.';
COMMENT ON COLUMN headrace.tariffs.tariff IS 'The place of the fact in the ledger: sequence * 1000 + place in the record.';
COMMENT ON COLUMN headrace.tariffs.spot IS 'Whether the pool is made of spot instances: its price is a spot price.';

CREATE TABLE headrace.prices (
    tariff bigint NOT NULL,
    pool text NOT NULL,
    tenant text NOT NULL,
    key text NOT NULL,
    on_demand numeric(18, 6) NOT NULL,
    reserved numeric(18, 6) NOT NULL,
    PRIMARY KEY (pool, tenant, tariff, key)
);
COMMENT ON TABLE headrace.prices IS 'What an hour of a key (a GPU, a core, a GiB) costs by each tariff, in the currency of the installation. A key without a price costs nothing.';
COMMENT ON COLUMN headrace.prices.reserved IS 'Inside the policy''s reservation; on_demand beyond it.';

CREATE TABLE headrace.days (
    day integer NOT NULL,
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
    PRIMARY KEY (tenant, day, group_name, policy, profile, user_name, service_account, pool, key, tariff)
) WITH (fillfactor = 70);
COMMENT ON TABLE headrace.days IS 'Sums of what is over, by day of UTC, in units times microseconds. What still lasts is in usage, suspensions and jobs.';
COMMENT ON COLUMN headrace.days.day IS 'Days since 1970-01-01: date ''1970-01-01'' + day is the date.';
COMMENT ON COLUMN headrace.days.waiting IS 'What jobs asked for while they were pending; no pool had taken them, so pool is empty.';

-- Intervals come in the order of time, so that blocks know well enough which times they hold, at next to no cost.
DROP INDEX headrace.usage_until;
CREATE INDEX usage_until ON headrace.usage USING brin (until) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX usage_since ON headrace.usage USING brin (since) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX attempts_granted ON headrace.attempts USING brin (granted_at) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX jobs_tenant ON headrace.jobs (tenant);

CREATE FUNCTION headrace.asked(request jsonb, replicas bigint) RETURNS TABLE (key text, units bigint)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT each.key, each.value::bigint * replicas FROM jsonb_each_text(request) AS each WHERE each.key <> 'job'
    UNION ALL
    SELECT 'job', 1::bigint;
END;
COMMENT ON FUNCTION headrace.asked IS 'What all replicas of a job ask for, and the one job that every job takes (R2).';
