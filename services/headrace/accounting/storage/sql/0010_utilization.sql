-- How much held devices computed, from samples of nodes. These are not facts: no table here can be made again from the ledger.

CREATE TABLE headrace.load_minutes (
    minute integer NOT NULL,
    node text NOT NULL,
    device text NOT NULL,
    lease bigint NOT NULL,
    held numeric NOT NULL,
    measured numeric NOT NULL,
    busy numeric NOT NULL,
    idle_held numeric NOT NULL,
    memory numeric NOT NULL,
    PRIMARY KEY (minute, node, device, lease)
);
COMMENT ON TABLE headrace.load_minutes IS 'What each lease held of a device in one minute, and how much the device computed for it; kept for two days.';
COMMENT ON COLUMN headrace.load_minutes.minute IS 'Minutes since 1970-01-01 00:00 UTC.';
COMMENT ON COLUMN headrace.load_minutes.held IS 'Units (1/126000 of a GPU) times microseconds.';
COMMENT ON COLUMN headrace.load_minutes.measured IS 'The part of held in which the load was known.';
COMMENT ON COLUMN headrace.load_minutes.busy IS 'The part of measured in which the device computed.';
COMMENT ON COLUMN headrace.load_minutes.idle_held IS 'The part of measured in which the device had been nearly unused for ten minutes and longer.';
COMMENT ON COLUMN headrace.load_minutes.memory IS 'MiB in use times microseconds of the measured time.';

CREATE TABLE headrace.load_device_hours (
    hour integer NOT NULL,
    node text NOT NULL,
    device text NOT NULL,
    lease bigint NOT NULL,
    held numeric NOT NULL,
    measured numeric NOT NULL,
    busy numeric NOT NULL,
    idle_held numeric NOT NULL,
    memory numeric NOT NULL,
    PRIMARY KEY (hour, node, device, lease)
) WITH (fillfactor = 70);
COMMENT ON TABLE headrace.load_device_hours IS 'The same as headrace.load_minutes, by hour; kept for thirteen months.';
COMMENT ON COLUMN headrace.load_device_hours.hour IS 'Hours since 1970-01-01 00:00 UTC.';

CREATE TABLE headrace.load_hours (
    hour integer NOT NULL,
    tenant text NOT NULL,
    group_name text NOT NULL,
    policy text NOT NULL,
    profile text NOT NULL,
    user_name text NOT NULL,
    service_account boolean NOT NULL,
    pool text NOT NULL,
    held numeric NOT NULL,
    measured numeric NOT NULL,
    busy numeric NOT NULL,
    idle_held numeric NOT NULL,
    PRIMARY KEY (hour, tenant, group_name, policy, profile, user_name, service_account, pool)
) WITH (fillfactor = 70);
COMMENT ON TABLE headrace.load_hours IS 'The sums of headrace.load_device_hours by account; kept for thirteen months.';

CREATE TABLE headrace.load_position (
    minute integer NOT NULL
);
INSERT INTO headrace.load_position VALUES (-1);
COMMENT ON TABLE headrace.load_position IS 'The last minute whose samples were added, so that none is added twice.';
