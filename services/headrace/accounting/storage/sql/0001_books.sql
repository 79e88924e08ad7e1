-- The first schema of the books. A migration is applied once, whole, and never changed afterwards: what differs comes as the next one.
-- Times are timestamptz, exact to the microsecond. Amounts are integers in the unit of their key. An amount times a span outgrows
-- bigint (a pool's memory over a quarter does), so amounts and moments are stored, each as bigint or timestamptz, and every product
-- and sum is numeric.

CREATE TABLE headrace.position (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    sequence bigint NOT NULL,
    digest text NOT NULL,
    now timestamptz NOT NULL
);
COMMENT ON TABLE headrace.position IS 'How far the books reach. Written in the same transaction as what it speaks of, so it is never ahead of it or behind.';
COMMENT ON COLUMN headrace.position.sequence IS 'The ledger sequence of the last record in the books.';
COMMENT ON COLUMN headrace.position.digest IS 'The digest of that record: it tells another ledger from this one.';
COMMENT ON COLUMN headrace.position.now IS 'The time of the ledger there (R34); what still runs is charged up to this moment.';
INSERT INTO headrace.position (sequence, digest, now) VALUES (0, '', 'epoch');

CREATE TABLE headrace.records (
    sequence bigint PRIMARY KEY,
    subject text NOT NULL,
    stamped timestamptz NOT NULL,
    now timestamptz,
    digest text NOT NULL,
    void text NOT NULL,
    payload bytea NOT NULL
);
COMMENT ON TABLE headrace.records IS 'An independent copy of every record of the ledger, void ones too, from which the stream can be repaired.';
COMMENT ON COLUMN headrace.records.stamped IS 'When the log stored it, by the clock of its server.';
COMMENT ON COLUMN headrace.records.now IS 'The time the record states (R34); null where it is void.';
COMMENT ON COLUMN headrace.records.digest IS '128 bits of BLAKE2b over the payload.';
COMMENT ON COLUMN headrace.records.void IS 'Why every reader skips it; empty where it is good.';
COMMENT ON COLUMN headrace.records.payload IS 'The bytes as stored: JSON.';

CREATE TABLE headrace.facts (
    sequence bigint NOT NULL,
    place integer NOT NULL,
    type text NOT NULL,
    about text NOT NULL,
    PRIMARY KEY (sequence, place)
);
CREATE INDEX facts_about ON headrace.facts (about, sequence);
COMMENT ON TABLE headrace.facts IS 'Where each fact stands; what it says is in headrace.fact_bodies.';
COMMENT ON COLUMN headrace.facts.place IS 'Its place in the record, from 0.';
COMMENT ON COLUMN headrace.facts.about IS 'The job key, or the node, or the name of the document it speaks of.';

CREATE TABLE headrace.jobs (
    job text PRIMARY KEY,
    tenant text NOT NULL,
    user_name text NOT NULL,
    group_name text NOT NULL,
    policy text NOT NULL,
    profile text NOT NULL,
    name text NOT NULL,
    request jsonb NOT NULL,
    replicas bigint NOT NULL,
    preemptible boolean NOT NULL,
    priority bigint NOT NULL,
    labels jsonb NOT NULL,
    admitted bigint NOT NULL,
    admitted_at timestamptz NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    message text NOT NULL,
    attempts bigint NOT NULL,
    preemptions bigint NOT NULL,
    exit_code bigint,
    ended_at timestamptz
);
COMMENT ON TABLE headrace.jobs IS 'Every job that was admitted or rejected, as it is now.';
COMMENT ON COLUMN headrace.jobs.job IS 'The job key: tenant.user.id.';
COMMENT ON COLUMN headrace.jobs.group_name IS 'The group whose policy the job counts in; empty for a rejected job.';
COMMENT ON COLUMN headrace.jobs.request IS 'What one replica asks for, by key.';
COMMENT ON COLUMN headrace.jobs.admitted IS 'The sequence of the record that admitted or rejected it.';
COMMENT ON COLUMN headrace.jobs.state IS 'pending, starting, running, stopping, succeeded, failed, cancelled or rejected.';
COMMENT ON COLUMN headrace.jobs.reason IS 'Why it ended or was rejected.';

CREATE TABLE headrace.attempts (
    job text NOT NULL,
    attempt bigint NOT NULL,
    pool text NOT NULL,
    waiting_since timestamptz NOT NULL,
    granted_at timestamptz NOT NULL,
    started_at timestamptz,
    ended_at timestamptz,
    cause text,
    exit_code bigint,
    resume_from text NOT NULL,
    checkpoint text NOT NULL,
    checkpoint_step bigint,
    checkpoint_at timestamptz,
    PRIMARY KEY (job, attempt)
);
CREATE INDEX attempts_open ON headrace.attempts (job, attempt) WHERE cause IS NULL;
COMMENT ON TABLE headrace.attempts IS 'Every try at running a job.';
COMMENT ON COLUMN headrace.attempts.started_at IS 'When all its replicas had started, by the nodes'' clocks (R37).';
COMMENT ON COLUMN headrace.attempts.ended_at IS 'When its last lease was released.';
COMMENT ON COLUMN headrace.attempts.cause IS 'Why it was over: exited, preempted, node_lost ...; null while it is not settled.';
COMMENT ON COLUMN headrace.attempts.checkpoint IS 'The newest one it registered.';

CREATE TABLE headrace.leases (
    lease bigint PRIMARY KEY,
    job text NOT NULL,
    attempt bigint NOT NULL,
    rank bigint NOT NULL,
    tenant text NOT NULL,
    user_name text NOT NULL,
    group_name text NOT NULL,
    policy text NOT NULL,
    profile text NOT NULL,
    pool text NOT NULL,
    node text NOT NULL,
    devices jsonb NOT NULL,
    amounts jsonb NOT NULL,
    preemptible boolean NOT NULL,
    granted_at timestamptz NOT NULL,
    started_at timestamptz,
    heard_at timestamptz NOT NULL,
    checkpoint_at timestamptz,
    exited_at timestamptz,
    ended_at timestamptz,
    outcome text,
    exit_code bigint,
    lost_from timestamptz,
    lost_until timestamptz
);
CREATE INDEX leases_job ON headrace.leases (job, attempt, rank);
COMMENT ON TABLE headrace.leases IS 'What each replica held, where, and when: charged from granted_at to ended_at, by the node''s own clock (R37).';
COMMENT ON COLUMN headrace.leases.lease IS 'The place of the grant in the ledger: sequence * 1000 + place in the record. A smaller one is older (R17).';
COMMENT ON COLUMN headrace.leases.group_name IS 'The group of the policy when the lease was granted.';
COMMENT ON COLUMN headrace.leases.devices IS 'Units of each device; 126000 are a whole one.';
COMMENT ON COLUMN headrace.leases.amounts IS 'What is charged, by key: gpu in 1/126000, cpu in millicores, memory in MiB.';
COMMENT ON COLUMN headrace.leases.heard_at IS 'The moment of the node''s last fact about it; nothing it says later can lie before this (R37).';
COMMENT ON COLUMN headrace.leases.lost_from IS 'The work since then, to lost_until, was lost to a preemption or a node: it was in no checkpoint (R25).';

CREATE TABLE headrace.usage (
    lease bigint NOT NULL,
    key text NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz,
    reserved bigint NOT NULL,
    borrowed bigint NOT NULL,
    PRIMARY KEY (lease, key, since)
);
CREATE INDEX usage_open ON headrace.usage (lease, key) WHERE until IS NULL;
CREATE INDEX usage_until ON headrace.usage (until) WHERE until IS NOT NULL;
COMMENT ON TABLE headrace.usage IS 'For how long a lease held how many units of a key inside its policy''s reservation and beyond it (R17).';
COMMENT ON COLUMN headrace.usage.until IS 'Null while it lasts.';
COMMENT ON COLUMN headrace.usage.reserved IS 'Units that the policy''s reservation covered; with borrowed they are all the lease held.';

CREATE TABLE headrace.preemptions (
    preemption text PRIMARY KEY,
    job text NOT NULL,
    pool text NOT NULL,
    cause text NOT NULL,
    rule text NOT NULL,
    ordered bigint NOT NULL,
    ordered_at timestamptz NOT NULL,
    settled_at timestamptz,
    to_signal bigint,
    grace bigint,
    to_release bigint,
    lost bigint,
    unused text NOT NULL DEFAULT ''
);
COMMENT ON TABLE headrace.preemptions IS 'Every preemption that was ordered, and how it ended.';
COMMENT ON COLUMN headrace.preemptions.job IS 'The preemptor.';
COMMENT ON COLUMN headrace.preemptions.ordered IS 'The sequence of the record that ordered it.';
COMMENT ON COLUMN headrace.preemptions.to_signal IS 'Microseconds from the order to the signal (ours), then grace (the jobs''), then to_release (the node''s).';
COMMENT ON COLUMN headrace.preemptions.lost IS 'Whole GPU-seconds of work that were in no checkpoint, as preemption stated it; exact in leases.';
COMMENT ON COLUMN headrace.preemptions.unused IS 'Why the freed units were not kept for the preemptor to the end; empty where they were.';

CREATE TABLE headrace.victims (
    preemption text NOT NULL,
    job text NOT NULL,
    attempt bigint NOT NULL,
    policy text NOT NULL,
    lost bigint NOT NULL,
    PRIMARY KEY (preemption, job)
);
CREATE INDEX victims_job ON headrace.victims (job);
COMMENT ON TABLE headrace.victims IS 'The jobs that had to yield. lost: whole GPU-seconds, at the time of the search (R25).';

CREATE TABLE headrace.reservations (
    tenant text NOT NULL,
    policy text NOT NULL,
    key text NOT NULL,
    number bigint NOT NULL,
    since timestamptz NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (tenant, policy, key, number)
);
COMMENT ON TABLE headrace.reservations IS 'Every policy-wide reservation since a moment, until the next one of the same key.';
COMMENT ON COLUMN headrace.reservations.number IS 'The place of the fact in the ledger: sequence * 1000 + place in the record.';

CREATE TABLE headrace.capacity (
    pool text NOT NULL,
    key text NOT NULL,
    number bigint NOT NULL,
    since timestamptz NOT NULL,
    known bigint NOT NULL,
    usable bigint NOT NULL,
    PRIMARY KEY (pool, key, number)
);
COMMENT ON TABLE headrace.capacity IS 'What each pool had since a moment, until the next one of the same key (R6).';
COMMENT ON COLUMN headrace.capacity.number IS 'The sequence of the record that changed it.';

CREATE TABLE headrace.nodes (
    node text PRIMARY KEY,
    pool text NOT NULL,
    state text NOT NULL,
    cordoned text NOT NULL,
    labels jsonb NOT NULL,
    model text NOT NULL,
    gpus bigint NOT NULL,
    cpu bigint NOT NULL,
    memory bigint NOT NULL,
    registered_at timestamptz NOT NULL
);
COMMENT ON TABLE headrace.nodes IS 'Every node that ever registered, as it is now. cpu in millicores, memory in MiB.';
COMMENT ON COLUMN headrace.nodes.cordoned IS 'Why nothing new is granted on it; empty where it takes work.';

CREATE FUNCTION headrace.microseconds(span interval) RETURNS numeric
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN trunc(extract(epoch FROM span) * 1000000);
COMMENT ON FUNCTION headrace.microseconds IS 'The length of a span between two timestamps, exactly.';

CREATE VIEW headrace.use AS
    SELECT leases.tenant, leases.group_name, leases.user_name, leases.pool, leases.policy, leases.profile, leases.job, leases.node,
           usage.key, usage.since, coalesce(usage.until, position.now) AS until, usage.until IS NULL AS lasts,
           usage.reserved, usage.borrowed,
           headrace.microseconds(coalesce(usage.until, position.now) - usage.since) AS microseconds,
           leases.lost_from, leases.lost_until
    FROM headrace.usage JOIN headrace.leases USING (lease) CROSS JOIN headrace.position
    WHERE coalesce(usage.until, position.now) > usage.since;
COMMENT ON VIEW headrace.use IS 'Usage with the names to group it by; what lasts is charged up to the position. Units times microseconds is what was used.';

CREATE VIEW headrace.fact_bodies AS
    SELECT facts.sequence, facts.place, records.now, records.subject, facts.type, facts.about,
           convert_from(records.payload, 'UTF8')::json -> 'facts' -> facts.place AS body
    FROM headrace.facts JOIN headrace.records USING (sequence);
COMMENT ON VIEW headrace.fact_bodies IS 'What each fact says, read from the copy of its record.';
