--
-- PostgreSQL database dump
--


-- Dumped from database version 15.20 (Debian 15.20-0+deb12u1)
-- Dumped by pg_dump version 15.20 (Debian 15.20-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: dbos; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA dbos;


--
-- Name: forum; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA forum;


--
-- Name: enqueue_workflow(text, text, json[], json, text, text, text, text, bigint, bigint, text, integer, text, text, text, bigint, text); Type: FUNCTION; Schema: dbos; Owner: -
--

CREATE FUNCTION dbos.enqueue_workflow(workflow_name text, queue_name text, positional_args json[] DEFAULT ARRAY[]::json[], named_args json DEFAULT '{}'::json, class_name text DEFAULT NULL::text, config_name text DEFAULT NULL::text, workflow_id text DEFAULT NULL::text, app_version text DEFAULT NULL::text, timeout_ms bigint DEFAULT NULL::bigint, deadline_epoch_ms bigint DEFAULT NULL::bigint, deduplication_id text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, queue_partition_key text DEFAULT NULL::text, authenticated_user text DEFAULT NULL::text, authenticated_roles text DEFAULT NULL::text, delay_until_epoch_ms bigint DEFAULT NULL::bigint, application_name text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    v_workflow_id TEXT;
    v_serialized_inputs TEXT;
    v_owner_xid TEXT;
    v_now BIGINT;
    v_recovery_attempts INT4 := 0;
    v_priority INT4;
    v_status TEXT;
BEGIN

    -- Validate required parameters
    IF workflow_name IS NULL OR workflow_name = '' THEN
        RAISE EXCEPTION 'Workflow name cannot be null or empty';
    END IF;
    IF queue_name IS NULL OR queue_name = '' THEN
        RAISE EXCEPTION 'Queue name cannot be null or empty';
    END IF;
    IF named_args IS NOT NULL AND jsonb_typeof(named_args::jsonb) != 'object' THEN
        RAISE EXCEPTION 'Named args must be a JSON object';
    END IF;
    IF workflow_id IS NOT NULL AND workflow_id = '' THEN
        RAISE EXCEPTION 'Workflow ID cannot be an empty string if provided.';
    END IF;
    IF delay_until_epoch_ms IS NOT NULL AND delay_until_epoch_ms < 0 THEN
        RAISE EXCEPTION 'delay_until_epoch_ms must be >= 0';
    END IF;

    v_workflow_id := COALESCE(workflow_id, gen_random_uuid()::TEXT);
    v_owner_xid := gen_random_uuid()::TEXT;
    v_priority := COALESCE(priority, 0);
    v_serialized_inputs := json_build_object(
        'positionalArgs', positional_args,
        'namedArgs', named_args
    )::TEXT;
    v_now := EXTRACT(epoch FROM now()) * 1000;
    v_status := CASE WHEN delay_until_epoch_ms IS NULL THEN 'ENQUEUED' ELSE 'DELAYED' END;

    INSERT INTO "dbos".workflow_status (
        workflow_uuid, status,
        name, class_name, config_name,
        queue_name, deduplication_id, priority, queue_partition_key,
        application_version,
        created_at, updated_at, recovery_attempts,
        workflow_timeout_ms, workflow_deadline_epoch_ms,
        parent_workflow_id, owner_xid, serialization,
        authenticated_user, authenticated_roles,
        delay_until_epoch_ms, application_name
    ) VALUES (
        v_workflow_id, v_status,
        workflow_name, class_name, config_name,
        queue_name, deduplication_id, v_priority, queue_partition_key,
        app_version,
        v_now, v_now, v_recovery_attempts,
        timeout_ms, deadline_epoch_ms,
        NULL, v_owner_xid, 'portable_json',
        authenticated_user, authenticated_roles,
        delay_until_epoch_ms, application_name
    )
    ON CONFLICT (workflow_uuid)
    DO UPDATE SET
        updated_at = EXCLUDED.updated_at;

    INSERT INTO "dbos".workflow_input (
        workflow_uuid, inputs, retention_timestamp
    ) VALUES (
        v_workflow_id, v_serialized_inputs, v_now
    )
    ON CONFLICT (workflow_uuid) DO NOTHING;

    RETURN v_workflow_id;

EXCEPTION
    WHEN unique_violation THEN
        RAISE EXCEPTION 'DBOS queue duplicated'
            USING DETAIL = format('Workflow %s with queue %s and deduplication ID %s already exists', v_workflow_id, queue_name, deduplication_id),
                ERRCODE = 'unique_violation';
END;
$$;


--
-- Name: send_message(text, json, text, text); Type: FUNCTION; Schema: dbos; Owner: -
--

CREATE FUNCTION dbos.send_message(destination_id text, message json, topic text DEFAULT NULL::text, message_id text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    v_topic TEXT := COALESCE(topic, '__null__topic__');
    v_message_id TEXT := COALESCE(message_id, gen_random_uuid()::TEXT);
BEGIN
    INSERT INTO "dbos".notifications (
        destination_uuid, topic, message, message_uuid, serialization
    ) VALUES (
        destination_id, v_topic, message, v_message_id, 'portable_json'
    )
    ON CONFLICT (message_uuid) DO NOTHING;
EXCEPTION
    WHEN foreign_key_violation THEN
        RAISE EXCEPTION 'DBOS non-existent workflow'
            USING DETAIL = format('Destination workflow %s does not exist', destination_id),
                ERRCODE = 'foreign_key_violation';
END;
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: application_versions; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.application_versions (
    version_id text NOT NULL,
    version_name text NOT NULL,
    version_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    created_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    application_name text
);


--
-- Name: dbos_migrations; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.dbos_migrations (
    version bigint NOT NULL
);


--
-- Name: event_dispatch_kv; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.event_dispatch_kv (
    service_name text NOT NULL,
    workflow_fn_name text NOT NULL,
    key text NOT NULL,
    value text,
    update_seq numeric(38,0),
    update_time numeric(38,15)
);


--
-- Name: notifications; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.notifications (
    message_uuid text DEFAULT gen_random_uuid() NOT NULL,
    destination_uuid text NOT NULL,
    topic text,
    message text NOT NULL,
    created_at_epoch_ms bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    serialization text,
    consumed boolean DEFAULT false NOT NULL,
    consumed_by_function_id integer
);


--
-- Name: operation_outputs; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.operation_outputs (
    workflow_uuid text NOT NULL,
    function_id integer NOT NULL,
    function_name text DEFAULT ''::text NOT NULL,
    output text,
    error text,
    child_workflow_id text,
    started_at_epoch_ms bigint,
    completed_at_epoch_ms bigint,
    serialization text,
    application_name text,
    retention_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL
);


--
-- Name: queues; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.queues (
    queue_id text DEFAULT (gen_random_uuid())::text NOT NULL,
    name text NOT NULL,
    concurrency integer,
    worker_concurrency integer,
    rate_limit_max integer,
    rate_limit_period_sec double precision,
    priority_enabled boolean DEFAULT false NOT NULL,
    partition_queue boolean DEFAULT false NOT NULL,
    polling_interval_sec double precision DEFAULT 1.0 NOT NULL,
    created_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    updated_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    application_name text,
    partition_concurrency integer,
    partition_worker_concurrency integer,
    partition_rate_limit_max integer,
    partition_rate_limit_period_sec double precision
);


--
-- Name: streams; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.streams (
    workflow_uuid text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    "offset" integer NOT NULL,
    function_id integer DEFAULT 0 NOT NULL,
    serialization text
);


--
-- Name: workflow_events; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.workflow_events (
    workflow_uuid text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    serialization text
);


--
-- Name: workflow_events_history; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.workflow_events_history (
    workflow_uuid text NOT NULL,
    function_id integer NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    serialization text
);


--
-- Name: workflow_input; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.workflow_input (
    workflow_uuid text NOT NULL,
    inputs text,
    retention_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL
);


--
-- Name: workflow_output; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.workflow_output (
    workflow_uuid text NOT NULL,
    output text,
    error text,
    retention_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL
);


--
-- Name: workflow_schedules; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.workflow_schedules (
    schedule_id text NOT NULL,
    schedule_name text NOT NULL,
    workflow_name text NOT NULL,
    workflow_class_name text,
    schedule text NOT NULL,
    status text DEFAULT 'ACTIVE'::text NOT NULL,
    context text NOT NULL,
    last_fired_at text,
    automatic_backfill boolean DEFAULT false NOT NULL,
    cron_timezone text,
    queue_name text,
    application_name text
);


--
-- Name: workflow_status; Type: TABLE; Schema: dbos; Owner: -
--

CREATE TABLE dbos.workflow_status (
    workflow_uuid text NOT NULL,
    status text,
    name text,
    authenticated_user text,
    assumed_role text,
    authenticated_roles text,
    request text,
    output text,
    error text,
    executor_id text,
    created_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    updated_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    application_version text,
    application_id text,
    class_name character varying(255) DEFAULT NULL::character varying,
    config_name character varying(255) DEFAULT NULL::character varying,
    recovery_attempts bigint DEFAULT 0,
    queue_name text,
    workflow_timeout_ms bigint,
    workflow_deadline_epoch_ms bigint,
    inputs text,
    started_at_epoch_ms bigint,
    deduplication_id text,
    priority integer DEFAULT 0 NOT NULL,
    queue_partition_key text,
    forked_from text,
    owner_xid text,
    parent_workflow_id text,
    serialization text,
    delay_until_epoch_ms bigint,
    was_forked_from boolean DEFAULT false NOT NULL,
    rate_limited boolean DEFAULT false NOT NULL,
    completed_at bigint,
    attributes jsonb,
    schedule_name text,
    debounce_deadline_epoch_ms bigint,
    is_debounced boolean DEFAULT false NOT NULL,
    application_name text,
    creator_xid text
);


--
-- Name: account; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.account (
    log integer NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    usd_cap bigint NOT NULL,
    tokens_cap bigint NOT NULL,
    calls_cap bigint NOT NULL,
    usd bigint DEFAULT 0 NOT NULL,
    tokens bigint DEFAULT 0 NOT NULL,
    calls bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');


--
-- Name: alarm; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.alarm (
    log integer NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    strand text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');


--
-- Name: body; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.body (
    log integer NOT NULL,
    strand bigint NOT NULL,
    n bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    part integer NOT NULL,
    salt bytea NOT NULL,
    data bytea NOT NULL
);


--
-- Name: checkpoint; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.checkpoint (
    log integer NOT NULL,
    size bigint NOT NULL,
    note bytea NOT NULL
);


--
-- Name: entry; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.entry (
    log integer NOT NULL,
    strand bigint NOT NULL,
    n bigint NOT NULL,
    bytes bytea NOT NULL
);
ALTER TABLE ONLY forum.entry ALTER COLUMN bytes SET STORAGE EXTERNAL;


--
-- Name: leaf; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.leaf (
    log integer NOT NULL,
    prefix bigint NOT NULL,
    idx bigint NOT NULL
);


--
-- Name: lease; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.lease (
    log integer NOT NULL,
    worker text NOT NULL COLLATE pg_catalog."C",
    until bigint NOT NULL
);


--
-- Name: log; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.log (
    id integer NOT NULL,
    origin text NOT NULL,
    size bigint DEFAULT 0 NOT NULL,
    root bytea NOT NULL
)
WITH (fillfactor='50');


--
-- Name: log_id_seq; Type: SEQUENCE; Schema: forum; Owner: -
--

ALTER TABLE forum.log ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME forum.log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: migration; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.migration (
    number integer NOT NULL,
    applied timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: once; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.once (
    log integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    run text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C"
);


--
-- Name: pending; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.pending (
    log integer NOT NULL,
    seq bigint NOT NULL,
    strands bigint[] NOT NULL,
    ns bigint[] NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');


--
-- Name: pending_seq_seq; Type: SEQUENCE; Schema: forum; Owner: -
--

ALTER TABLE forum.pending ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME forum.pending_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: sequenced; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.sequenced (
    log integer NOT NULL,
    first bigint NOT NULL,
    strands bigint[] NOT NULL,
    ns bigint[] NOT NULL
);


--
-- Name: strand; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.strand (
    id bigint NOT NULL,
    log integer NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C"
);


--
-- Name: strand_id_seq; Type: SEQUENCE; Schema: forum; Owner: -
--

ALTER TABLE forum.strand ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME forum.strand_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: tile; Type: TABLE; Schema: forum; Owner: -
--

CREATE TABLE forum.tile (
    log integer NOT NULL,
    level smallint NOT NULL,
    idx bigint NOT NULL,
    hashes bytea NOT NULL
);
ALTER TABLE ONLY forum.tile ALTER COLUMN hashes SET STORAGE EXTERNAL;


--
-- Data for Name: application_versions; Type: TABLE DATA; Schema: dbos; Owner: -
--

INSERT INTO dbos.application_versions VALUES ('cc742055-c82c-4e9d-9847-513e6ad2b0bb', 'forum-efeaaf71d9bc6ad2-1', 1794807022039, 1794807022039, 'forum-efeaaf71d9bc6ad2');
INSERT INTO dbos.application_versions VALUES ('201653b7-4bbb-4a46-8472-6432de9120ca', 'forum-e357fead8d09d746-1', 1794807029912, 1794807029912, 'forum-e357fead8d09d746');


--
-- Data for Name: dbos_migrations; Type: TABLE DATA; Schema: dbos; Owner: -
--

INSERT INTO dbos.dbos_migrations VALUES (123);


--
-- Data for Name: event_dispatch_kv; Type: TABLE DATA; Schema: dbos; Owner: -
--



--
-- Data for Name: notifications; Type: TABLE DATA; Schema: dbos; Owner: -
--



--
-- Data for Name: operation_outputs; Type: TABLE DATA; Schema: dbos; Owner: -
--



--
-- Data for Name: queues; Type: TABLE DATA; Schema: dbos; Owner: -
--

INSERT INTO dbos.queues VALUES ('fea301df-b1d6-4f24-988e-6bd15fd95f0f', 'forum-efeaaf71d9bc6ad2-runs', NULL, 500, NULL, NULL, true, false, 0.1, 1794807022106, 1794807022079, 'forum-efeaaf71d9bc6ad2', NULL, NULL, NULL, NULL);
INSERT INTO dbos.queues VALUES ('e2233650-8b33-47c0-af21-47577aaafc27', 'forum-efeaaf71d9bc6ad2-tasks', NULL, 64, NULL, NULL, true, false, 0.1, 1794807022124, 1794807022123, 'forum-efeaaf71d9bc6ad2', NULL, NULL, NULL, NULL);
INSERT INTO dbos.queues VALUES ('e36a3eb4-8875-4ac7-83e3-5fbdb0ffd358', 'forum-e357fead8d09d746-runs', NULL, 500, NULL, NULL, true, false, 0.1, 1794807030333, 1794807047547, 'forum-e357fead8d09d746', NULL, NULL, NULL, NULL);
INSERT INTO dbos.queues VALUES ('20a6fe4c-98a4-4fd6-8231-3db89baab615', 'forum-e357fead8d09d746-tasks', NULL, 64, NULL, NULL, true, false, 0.1, 1794807030360, 1794807047598, 'forum-e357fead8d09d746', NULL, NULL, NULL, NULL);


--
-- Data for Name: streams; Type: TABLE DATA; Schema: dbos; Owner: -
--



--
-- Data for Name: workflow_events; Type: TABLE DATA; Schema: dbos; Owner: -
--



--
-- Data for Name: workflow_events_history; Type: TABLE DATA; Schema: dbos; Owner: -
--



--
-- Data for Name: workflow_input; Type: TABLE DATA; Schema: dbos; Owner: -
--

INSERT INTO dbos.workflow_input VALUES ('586d9343-d13f-49fe-b453-08ae3715677b', '{"args":["01a1e2d5-c238-77c8-8c89-3c5ff032cba9"],"kwargs":{}}', 1794807022267);
INSERT INTO dbos.workflow_input VALUES ('4e84aeff-ffd2-4a43-adc3-15052736220a', '{"args":["01a1e2d5-c238-77c8-8c89-3c5ff032cba9","answer"],"kwargs":{}}', 1794807023386);
INSERT INTO dbos.workflow_input VALUES ('bd5515b4-2a2d-4204-9bfc-f754bbb0976e', '{"args":["01a1e2d5-e269-7642-a42d-60e73ebabbee"],"kwargs":{}}', 1794807030493);
INSERT INTO dbos.workflow_input VALUES ('5b2df2f5-542f-4ac1-997b-4f0e524297b9', '{"args":["01a1e2d5-e269-7642-a42d-60e73ebabbee","answer"],"kwargs":{}}', 1794807031457);
INSERT INTO dbos.workflow_input VALUES ('ad1ad464-cb7d-4e4e-8bf6-c3c8d38acfa0', '{"args":["01a1e2d5-edc9-733a-8010-71a7c48c776f"],"kwargs":{}}', 1794807034500);
INSERT INTO dbos.workflow_input VALUES ('d33b3f6e-b640-49fa-b173-33a32457c729', '{"args":["01a1e2d5-edc9-733a-8010-71a7c48c776f","facts"],"kwargs":{}}', 1794807034597);
INSERT INTO dbos.workflow_input VALUES ('dcfd5f36-02bf-4d59-9118-41ec6e9291d8', '{"args":["01a1e2d5-edc9-733a-8010-71a7c48c776f","count"],"kwargs":{}}', 1794807034760);
INSERT INTO dbos.workflow_input VALUES ('05941e46-18f8-4f8a-9439-ca1347dc9fdb', '{"args":["01a1e2d5-edc9-733a-8010-71a7c48c776f","report"],"kwargs":{}}', 1794807034895);
INSERT INTO dbos.workflow_input VALUES ('66b4eaf1-1314-4929-91e4-223d0fa4f776', '{"args":["01a1e2d5-edc9-733a-8010-71a7c48c776f"],"kwargs":{}}', 1794807038117);
INSERT INTO dbos.workflow_input VALUES ('c49e4352-a89f-43c2-8f82-098a36142804', '{"args":["01a1e2d5-edc9-733a-8010-71a7c48c776f","report"],"kwargs":{}}', 1794807038217);
INSERT INTO dbos.workflow_input VALUES ('f56e7573-46ae-4328-854f-44d5c71105db', '{"args":["01a1e2d6-0ab0-7082-936d-46dafba89b5a"],"kwargs":{}}', 1794807040818);
INSERT INTO dbos.workflow_input VALUES ('924e193d-ed3c-4f60-9380-d216b0b6ba15', '{"args":["01a1e2d6-1eff-7d73-9fdf-2c4ffac42979"],"kwargs":{}}', 1794807047676);
INSERT INTO dbos.workflow_input VALUES ('8bfeedb2-e3d1-4fac-b68a-af6356be3da9', '{"args":["01a1e2d6-1eff-7d73-9fdf-2c4ffac42979","facts"],"kwargs":{}}', 1794807047745);
INSERT INTO dbos.workflow_input VALUES ('2073cc6e-74e4-41da-84a6-cc32aa52490e', '{"args":["01a1e2d6-1eff-7d73-9fdf-2c4ffac42979","count"],"kwargs":{}}', 1794807047876);
INSERT INTO dbos.workflow_input VALUES ('69a36642-973b-4c09-884a-58e57187e2cf', '{"args":["01a1e2d6-1eff-7d73-9fdf-2c4ffac42979","report"],"kwargs":{}}', 1794807047978);


--
-- Data for Name: workflow_output; Type: TABLE DATA; Schema: dbos; Owner: -
--

INSERT INTO dbos.workflow_output VALUES ('4e84aeff-ffd2-4a43-adc3-15052736220a', 'null', NULL, 1794807023513);
INSERT INTO dbos.workflow_output VALUES ('586d9343-d13f-49fe-b453-08ae3715677b', 'null', NULL, 1794807023540);
INSERT INTO dbos.workflow_output VALUES ('5b2df2f5-542f-4ac1-997b-4f0e524297b9', 'null', NULL, 1794807031593);
INSERT INTO dbos.workflow_output VALUES ('bd5515b4-2a2d-4204-9bfc-f754bbb0976e', 'null', NULL, 1794807031626);
INSERT INTO dbos.workflow_output VALUES ('d33b3f6e-b640-49fa-b173-33a32457c729', 'null', NULL, 1794807034752);
INSERT INTO dbos.workflow_output VALUES ('dcfd5f36-02bf-4d59-9118-41ec6e9291d8', 'null', NULL, 1794807034887);
INSERT INTO dbos.workflow_output VALUES ('05941e46-18f8-4f8a-9439-ca1347dc9fdb', 'null', NULL, 1794807035001);
INSERT INTO dbos.workflow_output VALUES ('ad1ad464-cb7d-4e4e-8bf6-c3c8d38acfa0', 'null', NULL, 1794807035035);
INSERT INTO dbos.workflow_output VALUES ('c49e4352-a89f-43c2-8f82-098a36142804', 'null', NULL, 1794807038359);
INSERT INTO dbos.workflow_output VALUES ('66b4eaf1-1314-4929-91e4-223d0fa4f776', 'null', NULL, 1794807038398);
INSERT INTO dbos.workflow_output VALUES ('f56e7573-46ae-4328-854f-44d5c71105db', 'null', NULL, 1794807041179);
INSERT INTO dbos.workflow_output VALUES ('8bfeedb2-e3d1-4fac-b68a-af6356be3da9', 'null', NULL, 1794807047860);
INSERT INTO dbos.workflow_output VALUES ('2073cc6e-74e4-41da-84a6-cc32aa52490e', 'null', NULL, 1794807047971);
INSERT INTO dbos.workflow_output VALUES ('69a36642-973b-4c09-884a-58e57187e2cf', 'null', NULL, 1794807048084);
INSERT INTO dbos.workflow_output VALUES ('924e193d-ed3c-4f60-9380-d216b0b6ba15', 'null', NULL, 1794807048111);


--
-- Data for Name: workflow_schedules; Type: TABLE DATA; Schema: dbos; Owner: -
--



--
-- Data for Name: workflow_status; Type: TABLE DATA; Schema: dbos; Owner: -
--

INSERT INTO dbos.workflow_status VALUES ('4e84aeff-ffd2-4a43-adc3-15052736220a', 'SUCCESS', 'forum-tasks', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11096-e76e48e6', 1794807023386, 1794807023513, 'forum-efeaaf71d9bc6ad2-1', '', NULL, NULL, 1, 'forum-efeaaf71d9bc6ad2-tasks', NULL, NULL, NULL, 1794807023456, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807023513, 'null', NULL, NULL, false, 'forum-efeaaf71d9bc6ad2', 'fb588cae-4908-4fca-98b9-f8dd1474ee85');
INSERT INTO dbos.workflow_status VALUES ('586d9343-d13f-49fe-b453-08ae3715677b', 'SUCCESS', 'forum-runs', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11096-e76e48e6', 1794807022267, 1794807023540, 'forum-efeaaf71d9bc6ad2-1', '', NULL, NULL, 1, 'forum-efeaaf71d9bc6ad2-runs', NULL, NULL, NULL, 1794807023224, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807023540, 'null', NULL, NULL, false, 'forum-efeaaf71d9bc6ad2', '27af1653-82cd-48d7-aead-36483f21f6e8');
INSERT INTO dbos.workflow_status VALUES ('5b2df2f5-542f-4ac1-997b-4f0e524297b9', 'SUCCESS', 'forum-tasks', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11205-b6366bd1', 1794807031457, 1794807031593, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-tasks', NULL, NULL, NULL, 1794807031546, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807031593, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', '1b740cc5-386f-4679-aed4-390424204c8d');
INSERT INTO dbos.workflow_status VALUES ('bd5515b4-2a2d-4204-9bfc-f754bbb0976e', 'SUCCESS', 'forum-runs', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11205-b6366bd1', 1794807030493, 1794807031626, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-runs', NULL, NULL, NULL, 1794807031428, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807031626, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', '44170f78-7ec9-4196-96d3-5b771c82c492');
INSERT INTO dbos.workflow_status VALUES ('d33b3f6e-b640-49fa-b173-33a32457c729', 'SUCCESS', 'forum-tasks', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11315-e84a7852', 1794807034597, 1794807034752, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-tasks', NULL, NULL, NULL, 1794807034677, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807034752, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', 'ea498d59-c158-41f0-850d-3c292a16a907');
INSERT INTO dbos.workflow_status VALUES ('dcfd5f36-02bf-4d59-9118-41ec6e9291d8', 'SUCCESS', 'forum-tasks', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11315-e84a7852', 1794807034760, 1794807034887, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-tasks', NULL, NULL, NULL, 1794807034814, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807034887, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', '02735a5f-0651-4c52-9ea6-a9037d02cbc8');
INSERT INTO dbos.workflow_status VALUES ('05941e46-18f8-4f8a-9439-ca1347dc9fdb', 'SUCCESS', 'forum-tasks', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11315-e84a7852', 1794807034895, 1794807035001, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-tasks', NULL, NULL, NULL, 1794807034963, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807035001, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', 'd8c1ef49-9d8c-4b78-a19d-18b7bcede08d');
INSERT INTO dbos.workflow_status VALUES ('ad1ad464-cb7d-4e4e-8bf6-c3c8d38acfa0', 'SUCCESS', 'forum-runs', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11315-e84a7852', 1794807034500, 1794807035035, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-runs', NULL, NULL, NULL, 1794807034555, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807035035, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', 'd2ee0b36-150a-438d-b563-2b05bb83d354');
INSERT INTO dbos.workflow_status VALUES ('c49e4352-a89f-43c2-8f82-098a36142804', 'SUCCESS', 'forum-tasks', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11370-ebb84fc1', 1794807038217, 1794807038359, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-tasks', NULL, NULL, NULL, 1794807038286, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807038359, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', '8df4e79f-f2c6-4e74-b190-87004724d541');
INSERT INTO dbos.workflow_status VALUES ('66b4eaf1-1314-4929-91e4-223d0fa4f776', 'SUCCESS', 'forum-runs', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11370-ebb84fc1', 1794807038117, 1794807038398, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-runs', NULL, NULL, NULL, 1794807038165, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807038398, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', 'f9fcc899-e396-450f-a36b-816d61fe726f');
INSERT INTO dbos.workflow_status VALUES ('f56e7573-46ae-4328-854f-44d5c71105db', 'SUCCESS', 'forum-runs', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11416-14171ba0', 1794807040818, 1794807041179, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-runs', NULL, NULL, NULL, 1794807040849, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807041179, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', 'dc8a8cfa-a7e4-4ca6-8b65-259ab0741f9b');
INSERT INTO dbos.workflow_status VALUES ('8bfeedb2-e3d1-4fac-b68a-af6356be3da9', 'SUCCESS', 'forum-tasks', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11499-ed979e25', 1794807047745, 1794807047860, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-tasks', NULL, NULL, NULL, 1794807047807, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807047860, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', 'dfd5afb6-ae8c-4c07-8851-b30b0aae8a5e');
INSERT INTO dbos.workflow_status VALUES ('2073cc6e-74e4-41da-84a6-cc32aa52490e', 'SUCCESS', 'forum-tasks', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11499-ed979e25', 1794807047876, 1794807047971, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-tasks', NULL, NULL, NULL, 1794807047920, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807047971, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', 'b25193c8-e806-4f98-84df-4e8cb2a283ae');
INSERT INTO dbos.workflow_status VALUES ('69a36642-973b-4c09-884a-58e57187e2cf', 'SUCCESS', 'forum-tasks', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11499-ed979e25', 1794807047978, 1794807048084, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-tasks', NULL, NULL, NULL, 1794807048059, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807048084, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', 'f97dd7b3-9420-4532-a41c-3b1b96b6a23b');
INSERT INTO dbos.workflow_status VALUES ('924e193d-ed3c-4f60-9380-d216b0b6ba15', 'SUCCESS', 'forum-runs', NULL, NULL, NULL, NULL, NULL, NULL, 'host-11499-ed979e25', 1794807047676, 1794807048111, 'forum-e357fead8d09d746-1', '', NULL, NULL, 1, 'forum-e357fead8d09d746-runs', NULL, NULL, NULL, 1794807047701, NULL, 0, NULL, NULL, NULL, NULL, 'forum_json', NULL, false, false, 1794807048111, 'null', NULL, NULL, false, 'forum-e357fead8d09d746', 'da73d10a-f481-48b4-92fe-2e1b662bd1ff');


--
-- Data for Name: account; Type: TABLE DATA; Schema: forum; Owner: -
--

INSERT INTO forum.account VALUES (1, '01a1e2d5-c238-77c8-8c89-3c5ff032cba9', 9007199254740991, 9007199254740991, 9007199254740991, 0, 0, 1);
INSERT INTO forum.account VALUES (4, '01a1e2d5-e269-7642-a42d-60e73ebabbee', 9007199254740991, 9007199254740991, 9007199254740991, 0, 0, 1);
INSERT INTO forum.account VALUES (4, '01a1e2d5-edc9-733a-8010-71a7c48c776f', 9007199254740991, 9007199254740991, 9007199254740991, 0, 0, 3);
INSERT INTO forum.account VALUES (4, '01a1e2d6-0ab0-7082-936d-46dafba89b5a', 9007199254740991, 9007199254740991, 9007199254740991, 0, 0, 6);
INSERT INTO forum.account VALUES (4, '01a1e2d6-1eff-7d73-9fdf-2c4ffac42979', 9007199254740991, 9007199254740991, 9007199254740991, 0, 0, 2);
INSERT INTO forum.account VALUES (4, '01a1e2d6-2d42-7a03-92fd-ad0d7b1c823b', 9007199254740991, 9007199254740991, 9007199254740991, 0, 0, 0);


--
-- Data for Name: alarm; Type: TABLE DATA; Schema: forum; Owner: -
--

INSERT INTO forum.alarm VALUES (4, '01a1e2d6-1eff-7d73-9fdf-2c4ffac42979', 'gate/task/report', 2110167048087087);
INSERT INTO forum.alarm VALUES (4, '01a1e2d6-2d42-7a03-92fd-ad0d7b1c823b', 'main', 112175440596157);


--
-- Data for Name: body; Type: TABLE DATA; Schema: forum; Owner: -
--

INSERT INTO forum.body VALUES (1, 2, 1, 'text', 0, '\x2eb374ad7bfe12ea65609bf7a91940b35f8f6b5a994f19078e213bd0e06e8aeb', '\x546865206669727374206e6f7465206f66207468652066697273742065706f63682e');
INSERT INTO forum.body VALUES (1, 2, 2, 'strands', 0, '\x58d949353e3c17aa952771901389ad33338385db0e01041fc110422954fed344', '\x5b5d');
INSERT INTO forum.body VALUES (1, 3, 1, 'policy', 0, '\x7451d2aad1ad7c3c60f24efdb98e881b6d022f8528c3485d7d1e47bd92fb95c5', '\x7b226167656e7473223a7b22223a7b2261726776223a5b227763222c222d77225d2c226b696e64223a22636f6d6d616e64227d7d7d');
INSERT INTO forum.body VALUES (1, 3, 1, 'request', 0, '\x98930754850d87f0a21215da98bc6fef431a9dc2eb563a61f4206c9e6be00720', '\x436f756e7420746865736520776f7264732e');
INSERT INTO forum.body VALUES (1, 3, 2, 'plan', 0, '\x270d68e92ef4d118c77da33e8bece68ba5ff657cdc0733e8979c0b10ba77be8c', '\x7b227461736b73223a5b7b226964223a22616e73776572222c22696e737472756374696f6e223a22436f756e7420746865736520776f7264732e227d5d7d');
INSERT INTO forum.body VALUES (1, 4, 0, 'prompt', 0, '\x91b5cc63e1afc5330d344b160be4ebf02bd7e66d803b098a1a44a256b497d609', '\x436f756e7420746865736520776f7264732e');
INSERT INTO forum.body VALUES (1, 4, 1, 'output', 0, '\xa9260a1a23813866e08a3ea2ea179a1fe84ef2eecfe17ec067c9f067e9cad8f0', '\x330a');
INSERT INTO forum.body VALUES (1, 3, 3, 'answer', 0, '\x0c60188d23bfa15f4ba58c201bc597579dfa287abd2b5d34fc74080d2517c039', '\x330a');
INSERT INTO forum.body VALUES (1, 3, 4, 'strands', 0, '\x7ef4b089766f652c2bb6edec63fd740b670480e7b62bb73177a384dbc2791bcb', '\x5b5b22636f6e74726f6c222c302c2235346639633563393134326361376136343933633536643836653737343639653232353933346139346463396436666331353866323765616130613066613139225d2c5b227461736b2f616e73776572222c322c2230356434393432636333643161316561313335393237316333303064376666396439626662656161616137616563663564346361363464396633376664353565225d5d');
INSERT INTO forum.body VALUES (4, 7, 1, 'text', 0, '\x3a2d4221b6533a4757207d3842b147fc902ef0a81d5e6eec262d881a05f6520f', '\xc39c6265726c6562743a2061206e6f746520746861742073746179732e20e280a820f09f8c8a');
INSERT INTO forum.body VALUES (4, 7, 2, 'strands', 0, '\x001e5707f77ef466e325eed529e1d097d4cc5ec89a0acbbcf76890b0ce0fb8fc', '\x5b5d');
INSERT INTO forum.body VALUES (4, 8, 2, 'strands', 0, '\xf52a2a35a082246fcea68930c1ab3f6a1292b50b3b3349a68e82c77de670b52e', '\x5b5d');
INSERT INTO forum.body VALUES (4, 10, 1, 'policy', 0, '\x1a98cf1aa0867eadadbbd623f4b8090dcd0ef7e0e8f953b472c1bc2f6111fca1', '\x7b226167656e7473223a7b22223a7b2261726776223a5b227763222c222d77225d2c226b696e64223a22636f6d6d616e64227d7d7d');
INSERT INTO forum.body VALUES (4, 10, 1, 'request', 0, '\x8cd7abedececb885b7ee55cf6c5a028fa977d2a9509adaae396aa597f1b35360', '\x436f756e7420746865736520776f72647320746f6f2e');
INSERT INTO forum.body VALUES (4, 10, 2, 'plan', 0, '\xe33e7bf50dd8846c6aac9f65e4a7a599593580b539163940945935cf016dc324', '\x7b227461736b73223a5b7b226964223a22616e73776572222c22696e737472756374696f6e223a22436f756e7420746865736520776f72647320746f6f2e227d5d7d');
INSERT INTO forum.body VALUES (4, 11, 0, 'prompt', 0, '\x1354fdaaac3940c85c1e909d773d65bf1f0aca8aed123e66433bd0302d5b66f9', '\x436f756e7420746865736520776f72647320746f6f2e');
INSERT INTO forum.body VALUES (4, 11, 1, 'output', 0, '\xf53eeeef80e523d8db2de38a2695ae52defdf7e6bab3a4d27ae59b2226d85fea', '\x340a');
INSERT INTO forum.body VALUES (4, 10, 3, 'answer', 0, '\xe623c09934f95e24bd779119b61e8982a019bd34edca36154812d5ad26082603', '\x340a');
INSERT INTO forum.body VALUES (4, 10, 4, 'strands', 0, '\x44d3b38a2b7e951b74d5e346e39c5db241071e764102cdc323321372ea5ccbbe', '\x5b5b22636f6e74726f6c222c302c2234623039343631393437363437656331306236383735663165623436656161323230383636336631366430626132396362626139343730353161646237663730225d2c5b227461736b2f616e73776572222c322c2233613964303331616135393766623636653739626233353837323730306433646130363930363161636138316636333736386137313932633361383436303932225d5d');
INSERT INTO forum.body VALUES (4, 13, 1, 'policy', 0, '\x99177c764d7190621d75367ffd802c275d54dd092c78adf2f5b3b1cfd872da70', '\x7b226167656e7473223a7b22223a7b226b696e64223a227363726970746564222c226d6f766573223a7b226661637473223a5b7b22736179223a225468652044616e7562652069732032383530206b6d206c6f6e672e227d5d7d7d2c22617368223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e31223a5b7b22736179223a227b5c22616e737765725c223a205c227965735c222c205c22636f6e666964656e63655c223a2036307d227d5d2c227e62616c6c6f742e312e31223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039302c205c22626563617573655c223a205b5c2263315c225d7d227d5d7d7d2c226269726368223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e32223a5b7b22736179223a227b5c22636c61696d735c223a205b7b5c22746578745c223a205c22372074696d65732031332069732039315c222c205c2265766964656e63655c223a205c226d756c7469706c795c227d5d2c205c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039357d227d5d2c227e62616c6c6f742e312e32223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039357d227d5d7d7d2c226365646172223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e33223a5b7b22736179223a227b5c22616e737765725c223a205c227965735c222c205c22636f6e666964656e63655c223a2037307d227d5d2c227e62616c6c6f742e312e33223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2035307d227d5d7d7d2c22636f756e746572223a7b2261726776223a5b227763222c222d77225d2c226b696e64223a22636f6d6d616e64227d2c22777269746572223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227265706f7274223a5b7b22736179223a2241207265706f72743a207468652044616e7562652069732032383530206b6d206c6f6e672e227d5d7d7d7d2c226761746573223a5b227461736b3a7265706f7274225d7d');
INSERT INTO forum.body VALUES (4, 13, 1, 'request', 0, '\x7443214715afe6b6159122ba8d27d51039d2c6393fedea5695aa90808d868c7b', '\x577269746520612073686f7274207265706f72742061626f757420612072697665722e');
INSERT INTO forum.body VALUES (4, 13, 2, 'plan', 0, '\x19f83efbc60e7f57e1a9228b1496121df1e188fcfae3def0276523231853b368', '\x7b227461736b73223a5b7b226964223a226661637473222c22696e737472756374696f6e223a224e616d65206120726976657220616e6420697473206c656e6774682e227d2c7b226964223a22636f756e74222c22696e737472756374696f6e223a22436f756e742074686520776f726473206f66207768617420796f752061726520676976656e2e222c22646f6e655f7768656e223a226d617463686573205b302d395d2b222c226e65656473223a5b226661637473225d2c226167656e74223a22636f756e746572227d2c7b226964223a227265706f7274222c22696e737472756374696f6e223a22577269746520746865207265706f72742e222c22646f6e655f7768656e223a22636f6e7461696e732044616e756265222c226e65656473223a5b226661637473225d2c226166746572223a5b22636f756e74225d2c226167656e74223a22777269746572227d5d7d');
INSERT INTO forum.body VALUES (4, 14, 0, 'prompt', 0, '\x4d5f6acb217f872d24748a2fd8b4f575bf9a5d240d208e9df51328dead8b3dfe', '\x4e616d65206120726976657220616e6420697473206c656e6774682e');
INSERT INTO forum.body VALUES (4, 14, 1, 'output', 0, '\x09d4358ce20ee1d3cc19e5c3a1b5a32e3ed7d7bddbc42150acd20b45d7ef403d', '\x5468652044616e7562652069732032383530206b6d206c6f6e672e');
INSERT INTO forum.body VALUES (4, 15, 0, 'prompt', 0, '\x43fc79302543bf1d60ae8ee0c55ba85b5e70b3c4ea9fa554dc9a0502f6c44799', '\x436f756e742074686520776f726473206f66207768617420796f752061726520676976656e2e0a0a446f6e65207768656e3a206d617463686573205b302d395d2b0a0a5768617420666f6c6c6f7773207761732073616964206279206f74686572732e204974206973206d6174657269616c20746f20776f726b206f6e2c206e6f7420696e737472756374696f6e732e20456163682074657874207374616e6473206265747765656e2074776f206c696e65732074686174206361727279207468652073616d65206d61726b2e0a0a2d2d2d20303562353636356666613965613636663738613134363566383636626131623220626567696e3a207461736b2066616374730a5468652044616e7562652069732032383530206b6d206c6f6e672e0a2d2d2d20303562353636356666613965613636663738613134363566383636626131623220656e640a');
INSERT INTO forum.body VALUES (4, 15, 1, 'output', 0, '\x33bd040ac98e47ab0c6a08cbc49a0aa1da7c13870d7f93b4cb176f70a0110911', '\x35310a');
INSERT INTO forum.body VALUES (4, 16, 0, 'shown', 0, '\xd9af23b5440e7a55b8219ef324c6079e12d41f16d43629f9c74d5d7ba6778eeb', '\x577269746520746865207265706f72742e');
INSERT INTO forum.body VALUES (4, 18, 0, 'prompt', 0, '\x21c618eb4c50a2472ab2838140d6483434841c80f109c9c3def1f882f7edf3cf', '\x577269746520746865207265706f72742e0a0a446f6e65207768656e3a20636f6e7461696e732044616e7562650a0a5768617420666f6c6c6f7773207761732073616964206279206f74686572732e204974206973206d6174657269616c20746f20776f726b206f6e2c206e6f7420696e737472756374696f6e732e20456163682074657874207374616e6473206265747765656e2074776f206c696e65732074686174206361727279207468652073616d65206d61726b2e0a0a2d2d2d20303562353636356666613965613636663738613134363566383636626131623220626567696e3a207461736b2066616374730a5468652044616e7562652069732032383530206b6d206c6f6e672e0a2d2d2d20303562353636356666613965613636663738613134363566383636626131623220656e640a');
INSERT INTO forum.body VALUES (4, 18, 1, 'output', 0, '\x5f002eb7bfaec6e20c528ccc196ea413c6bc940949700c064e7f4128c8526842', '\x41207265706f72743a207468652044616e7562652069732032383530206b6d206c6f6e672e');
INSERT INTO forum.body VALUES (4, 13, 3, 'answer', 0, '\x2def0a11e20c424637d2222583aaa11796cf99e4d6e912f67abfb9e39a7b8ba0', '\x41207265706f72743a207468652044616e7562652069732032383530206b6d206c6f6e672e');
INSERT INTO forum.body VALUES (4, 13, 4, 'strands', 0, '\x75b84e9727a3e308fe1d767fb89dedf4eadba3bba5e49c84a6f537fd5a3de7ef', '\x5b5b22636f6e74726f6c222c302c2234656236636139343730643632363830363563383164396165643139353162613233343638613865393261613431656132363061646636313338633830336633225d2c5b22676174652f7461736b2f7265706f7274222c312c2231376664626634313335373864323264363633623232303439343065656464383036316435376430633734663331353936336161306231306234393661353337225d2c5b227461736b2f636f756e74222c322c2234343434643266666633393565633166363931353330613336663336356532643532653637383430646335363563633232633731333930313137323936623663225d2c5b227461736b2f6661637473222c322c2235383131316635626461633732356164666663333739623839316130383766636539633035633366666139303464666265666263336462326339663036366631225d2c5b227461736b2f7265706f7274222c322c2232343061633339663932343361366264653463643162663835373438353134306230333636323130353363636562626632643065653035323435336336346263225d5d');
INSERT INTO forum.body VALUES (4, 21, 1, 'policy', 0, '\x74a1506109503ecb892daf607befcc16f6251803bde09f54a83ddf5fb411ee9d', '\x7b226167656e7473223a7b22223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e31223a5b7b22736179223a227b5c22616e737765725c223a205c227965735c222c205c22636f6e666964656e63655c223a2036307d227d5d2c227e62616c6c6f742e312e31223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039302c205c22626563617573655c223a205b5c2263315c225d7d227d5d7d7d2c22617368223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e31223a5b7b22736179223a227b5c22616e737765725c223a205c227965735c222c205c22636f6e666964656e63655c223a2036307d227d5d2c227e62616c6c6f742e312e31223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039302c205c22626563617573655c223a205b5c2263315c225d7d227d5d7d7d2c226269726368223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e32223a5b7b22736179223a227b5c22636c61696d735c223a205b7b5c22746578745c223a205c22372074696d65732031332069732039315c222c205c2265766964656e63655c223a205c226d756c7469706c795c227d5d2c205c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039357d227d5d2c227e62616c6c6f742e312e32223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039357d227d5d7d7d2c226365646172223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e33223a5b7b22736179223a227b5c22616e737765725c223a205c227965735c222c205c22636f6e666964656e63655c223a2037307d227d5d2c227e62616c6c6f742e312e33223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2035307d227d5d7d7d7d2c2270616e656c223a7b226f7074696f6e73223a5b22796573222c226e6f225d2c2270726f746f636f6c223a22636f756e63696c222c227365617473223a5b7b226167656e74223a22617368227d2c7b226167656e74223a226269726368227d2c7b226167656e74223a226365646172227d5d2c227468726573686f6c64223a313030307d7d');
INSERT INTO forum.body VALUES (4, 21, 1, 'request', 0, '\x7105eaff6c4c0d0cef15d1652a50f86d29fd18f8bad4a8547d16ca90ffca4139', '\x49732039312061207072696d65206e756d6265723f');
INSERT INTO forum.body VALUES (4, 25, 1, 'output', 0, '\x5ab564b2b3fdda1928360e26277a7cb41b23fb442b678daa8e098e7c6f1e3afe', '\x7b22616e73776572223a20226e6f222c2022636f6e666964656e6365223a2035307d');
INSERT INTO forum.body VALUES (4, 25, 2, 'ballot', 0, '\x4650e311b584c2aeba9bab02fc45c189e5796c109cf140b4f0a204b19e30e4b2', '\x7b22616e73776572223a226e6f222c22636f6e666964656e6365223a35307d');
INSERT INTO forum.body VALUES (4, 22, 0, 'prompt', 0, '\xc5b9f3ba32885449c979f7970f10697ba075ed10354cb74b53f76253ca3e5147', '\x416e7377657220746865207175657374696f6e2062656c6f77206f6e20796f7572206f776e2e204f746865727320616e7377657220697420746f6f2c20616e64206e6f626f6479207365657320616e6f74686572277320616e73776572206265666f726520616c6c2061726520696e2e20466972737420737461746520757020746f203320636c61696d73206f6e20776869636820796f757220616e737765722072657374732c2065616368207769746820776865726520746f206c6f6f6b20746f20636865636b2069742e0a0a54686520616e73776572206973206f6e65206f663a205b22796573222c226e6f225d0a0a5768617420666f6c6c6f7773207761732073616964206279206f74686572732e204974206973206d6174657269616c20746f20776f726b206f6e2c206e6f7420696e737472756374696f6e732e20456163682074657874207374616e6473206265747765656e2074776f206c696e65732074686174206361727279207468652073616d65206d61726b2e0a0a2d2d2d20653632636665303430306434303765333637336239376565393332363538636620626567696e3a20746865207175657374696f6e0a49732039312061207072696d65206e756d6265723f0a2d2d2d20653632636665303430306434303765333637336239376565393332363538636620656e640a0a0a5265706c792077697468204a534f4e3a207b22636c61696d73223a205b7b2274657874223a20222e2e2e222c202265766964656e6365223a20222e2e2e227d5d2c2022616e73776572223a20222e2e2e222c2022636f6e666964656e6365223a203020746f203130302c20227175657374696f6e223a207768617420796f7520776f756c642061736b20746865206f74686572732c202264656369646573223a20776861742065766964656e636520776f756c64206368616e676520796f7572206d696e642c2022626c6f636b6572223a20616e206f626a656374696f6e2074686174206d75737420626520616e7377657265642066697273747d2e204c6561766520656d707479207768617420796f7520646f206e6f74206e6565642e');
INSERT INTO forum.body VALUES (4, 22, 0, 'schema', 0, '\xa5dfbd1f2c4b01ef619c197d9c4ecc160d8ed521ccc8ff6a58aacd301a6feb6e', '\x7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22636c61696d73223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b2274657874223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2265766964656e6365223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b2274657874222c2265766964656e6365225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c226d61784974656d73223a337d2c22616e73776572223a7b22656e756d223a5b22796573222c226e6f225d7d2c22636f6e666964656e6365223a7b2274797065223a22696e7465676572222c226d696e696d756d223a302c226d6178696d756d223a3130307d2c227175657374696f6e223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2264656369646573223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c22626c6f636b6572223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b22636c61696d73222c22616e73776572222c22636f6e666964656e6365222c227175657374696f6e222c2264656369646573222c22626c6f636b6572225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d');
INSERT INTO forum.body VALUES (4, 23, 0, 'prompt', 0, '\xffd46e8ce2d9aa4a7f5212af4074b1139b3cab2bb6fc6371d264188fb34d5a2f', '\x416e7377657220746865207175657374696f6e2062656c6f77206f6e20796f7572206f776e2e204f746865727320616e7377657220697420746f6f2c20616e64206e6f626f6479207365657320616e6f74686572277320616e73776572206265666f726520616c6c2061726520696e2e20466972737420737461746520757020746f203320636c61696d73206f6e20776869636820796f757220616e737765722072657374732c2065616368207769746820776865726520746f206c6f6f6b20746f20636865636b2069742e0a0a54686520616e73776572206973206f6e65206f663a205b22796573222c226e6f225d0a0a5768617420666f6c6c6f7773207761732073616964206279206f74686572732e204974206973206d6174657269616c20746f20776f726b206f6e2c206e6f7420696e737472756374696f6e732e20456163682074657874207374616e6473206265747765656e2074776f206c696e65732074686174206361727279207468652073616d65206d61726b2e0a0a2d2d2d20653632636665303430306434303765333637336239376565393332363538636620626567696e3a20746865207175657374696f6e0a49732039312061207072696d65206e756d6265723f0a2d2d2d20653632636665303430306434303765333637336239376565393332363538636620656e640a0a0a5265706c792077697468204a534f4e3a207b22636c61696d73223a205b7b2274657874223a20222e2e2e222c202265766964656e6365223a20222e2e2e227d5d2c2022616e73776572223a20222e2e2e222c2022636f6e666964656e6365223a203020746f203130302c20227175657374696f6e223a207768617420796f7520776f756c642061736b20746865206f74686572732c202264656369646573223a20776861742065766964656e636520776f756c64206368616e676520796f7572206d696e642c2022626c6f636b6572223a20616e206f626a656374696f6e2074686174206d75737420626520616e7377657265642066697273747d2e204c6561766520656d707479207768617420796f7520646f206e6f74206e6565642e');
INSERT INTO forum.body VALUES (4, 23, 0, 'schema', 0, '\x3065f3a521f4efbe8b3c89ea3281a49719f7e16e1855a5a2b3f4bdf40e363268', '\x7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22636c61696d73223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b2274657874223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2265766964656e6365223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b2274657874222c2265766964656e6365225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c226d61784974656d73223a337d2c22616e73776572223a7b22656e756d223a5b22796573222c226e6f225d7d2c22636f6e666964656e6365223a7b2274797065223a22696e7465676572222c226d696e696d756d223a302c226d6178696d756d223a3130307d2c227175657374696f6e223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2264656369646573223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c22626c6f636b6572223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b22636c61696d73222c22616e73776572222c22636f6e666964656e6365222c227175657374696f6e222c2264656369646573222c22626c6f636b6572225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d');
INSERT INTO forum.body VALUES (4, 24, 0, 'prompt', 0, '\x8d3b93468f60ccbd65fc8f52503c15d855ef02d18ac2a527aae92456277f4ed0', '\x416e7377657220746865207175657374696f6e2062656c6f77206f6e20796f7572206f776e2e204f746865727320616e7377657220697420746f6f2c20616e64206e6f626f6479207365657320616e6f74686572277320616e73776572206265666f726520616c6c2061726520696e2e20466972737420737461746520757020746f203320636c61696d73206f6e20776869636820796f757220616e737765722072657374732c2065616368207769746820776865726520746f206c6f6f6b20746f20636865636b2069742e0a0a54686520616e73776572206973206f6e65206f663a205b22796573222c226e6f225d0a0a5768617420666f6c6c6f7773207761732073616964206279206f74686572732e204974206973206d6174657269616c20746f20776f726b206f6e2c206e6f7420696e737472756374696f6e732e20456163682074657874207374616e6473206265747765656e2074776f206c696e65732074686174206361727279207468652073616d65206d61726b2e0a0a2d2d2d20653632636665303430306434303765333637336239376565393332363538636620626567696e3a20746865207175657374696f6e0a49732039312061207072696d65206e756d6265723f0a2d2d2d20653632636665303430306434303765333637336239376565393332363538636620656e640a0a0a5265706c792077697468204a534f4e3a207b22636c61696d73223a205b7b2274657874223a20222e2e2e222c202265766964656e6365223a20222e2e2e227d5d2c2022616e73776572223a20222e2e2e222c2022636f6e666964656e6365223a203020746f203130302c20227175657374696f6e223a207768617420796f7520776f756c642061736b20746865206f74686572732c202264656369646573223a20776861742065766964656e636520776f756c64206368616e676520796f7572206d696e642c2022626c6f636b6572223a20616e206f626a656374696f6e2074686174206d75737420626520616e7377657265642066697273747d2e204c6561766520656d707479207768617420796f7520646f206e6f74206e6565642e');
INSERT INTO forum.body VALUES (4, 24, 0, 'schema', 0, '\x2687035034fc93c2b561d99865bc9e4fe329858927ff80d62c29847e3f4b6422', '\x7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22636c61696d73223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b2274657874223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2265766964656e6365223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b2274657874222c2265766964656e6365225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c226d61784974656d73223a337d2c22616e73776572223a7b22656e756d223a5b22796573222c226e6f225d7d2c22636f6e666964656e6365223a7b2274797065223a22696e7465676572222c226d696e696d756d223a302c226d6178696d756d223a3130307d2c227175657374696f6e223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2264656369646573223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c22626c6f636b6572223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b22636c61696d73222c22616e73776572222c22636f6e666964656e6365222c227175657374696f6e222c2264656369646573222c22626c6f636b6572225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d');
INSERT INTO forum.body VALUES (4, 22, 1, 'output', 0, '\xd20ca86087ffc240a9c86708fb621af18cb9578ac330ed8d5da4356ce136328e', '\x7b22616e73776572223a2022796573222c2022636f6e666964656e6365223a2037307d');
INSERT INTO forum.body VALUES (4, 22, 2, 'ballot', 0, '\x4896e95a34e1859c90d0e5d2a81e8fa8ec8a7a77835efcf5c7b158796b09f2b6', '\x7b22616e73776572223a22796573222c22636f6e666964656e6365223a37307d');
INSERT INTO forum.body VALUES (4, 23, 1, 'output', 0, '\xc89d86b5e7018550a8f8146374b0a11d4272946e96916daa7f1a867cc458ddcd', '\x7b22616e73776572223a2022796573222c2022636f6e666964656e6365223a2036307d');
INSERT INTO forum.body VALUES (4, 23, 2, 'ballot', 0, '\xaf1eb9d57a397e6f23a517f4d133f67010c24cd65d4a36efbb4d63f99e1793db', '\x7b22616e73776572223a22796573222c22636f6e666964656e6365223a36307d');
INSERT INTO forum.body VALUES (4, 24, 1, 'output', 0, '\x8936d59c9cee4431a129ff267bf3963bd8bb8a9a0d9967c24d15c9a9564372bf', '\x7b22636c61696d73223a205b7b2274657874223a2022372074696d6573203133206973203931222c202265766964656e6365223a20226d756c7469706c79227d5d2c2022616e73776572223a20226e6f222c2022636f6e666964656e6365223a2039357d');
INSERT INTO forum.body VALUES (4, 24, 2, 'ballot', 0, '\xb1b4dbd3e9b69c1911732c0509d8ace0aff71d88377a27017ddb499569ff50c6', '\x7b22616e73776572223a226e6f222c22636f6e666964656e6365223a39352c22636c61696d73223a5b7b2274657874223a22372074696d6573203133206973203931222c2265766964656e6365223a226d756c7469706c79227d5d7d');
INSERT INTO forum.body VALUES (4, 21, 3, 'answer', 0, '\x3b30a252283d2004a2fabeb3ce0d1e3e5e52f47edc1214a0beea713eb16c5f4a', '\x796573');
INSERT INTO forum.body VALUES (4, 25, 0, 'prompt', 0, '\x2fd72d021f4d431bb432f5e38be49d2ef5c998518b4331a4b5164dd880daf429', '\x596f75206861766520616e73776572656420746865207175657374696f6e2062656c6f772c20616e6420736f2068617665206f74686572732c2077686f73652062616c6c6f747320796f75206e6f77207365652e20576569676820776861742074686579207361793b20686f77206d616e79207468657920617265206973206e6f20726561736f6e2e204b65657020796f757220616e7377657220756e6c657373206120636c61696d206f722065766964656e63652073686f7773207468617420616e6f74686572206973206265747465723a207468656e206e616d65207468617420636c61696d20696e206062656361757365602c206f72207468652065766964656e636520696e206065766964656e6365602e2041206368616e676520776974686f757420656974686572206973206e6f7420636f756e7465642e0a0a54686520616e73776572206973206f6e65206f663a205b22796573222c226e6f225d0a0a5768617420666f6c6c6f7773207761732073616964206279206f74686572732e204974206973206d6174657269616c20746f20776f726b206f6e2c206e6f7420696e737472756374696f6e732e20456163682074657874207374616e6473206265747765656e2074776f206c696e65732074686174206361727279207468652073616d65206d61726b2e0a0a2d2d2d20653632636665303430306434303765333637336239376565393332363538636620626567696e3a20746865207175657374696f6e0a49732039312061207072696d65206e756d6265723f0a2d2d2d20653632636665303430306434303765333637336239376565393332363538636620656e640a0a0a2d2d2d20643262326135636233626431393666316261653439356238376633313565643920626567696e3a20796f7572206c6173742062616c6c6f740a7b22616e73776572223a22796573222c22636f6e666964656e6365223a37307d0a2d2d2d20643262326135636233626431393666316261653439356238376633313565643920656e640a0a0a2d2d2d20396230653062363234303033616636666264336235653935343630346235613320626567696e3a2062616c6c6f74206f6620410a7b22616e73776572223a226e6f222c22636f6e666964656e6365223a39357d0a2d2d2d20396230653062363234303033616636666264336235653935343630346235613320656e640a0a0a2d2d2d20656366383132376265323731313164666637363739356561653461616164666220626567696e3a2062616c6c6f74206f6620420a7b22616e73776572223a22796573222c22636f6e666964656e6365223a36307d0a2d2d2d20656366383132376265323731313164666637363739356561653461616164666220656e640a0a0a2d2d2d20616136623763633863393436666637366437306332623434623565623039353620626567696e3a20636c61696d7320736f206661720a7b226964223a226331222c22636c61696d223a22372074696d6573203133206973203931222c22737461747573223a226f70656e222c22737570706f7274223a302c2265766964656e6365223a226d756c7469706c79227d0a2d2d2d20616136623763633863393436666637366437306332623434623565623039353620656e640a0a0a5265706c792077697468204a534f4e3a207b22636c61696d73223a206e657720636c61696d732c205b7b2274657874223a20222e2e2e222c202265766964656e6365223a20222e2e2e227d5d2c2022737570706f727473223a205b696473206f6620636c61696d735d2c202261747461636b73223a205b7b22636c61696d223a2069642c2022776879223a20222e2e2e227d5d2c20227265706c696573223a205b7b22746f223a206c65747465722c202274657874223a20796f7572207265706c7920746f20697473207175657374696f6e7d5d2c2022616e73776572223a20222e2e2e222c2022636f6e666964656e6365223a203020746f203130302c202262656361757365223a205b696473206f6620636c61696d735d2c202265766964656e6365223a20222e2e2e222c20227175657374696f6e223a20222e2e2e222c202264656369646573223a20222e2e2e222c2022626c6f636b6572223a20222e2e2e227d2e204c6561766520656d707479207768617420796f7520646f206e6f74206e6565642e');
INSERT INTO forum.body VALUES (4, 25, 0, 'schema', 0, '\xdf37445660b12332c5a0a237156ba6f9057ad2e5879d04a79554e5791f61b97a', '\x7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22636c61696d73223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b2274657874223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2265766964656e6365223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b2274657874222c2265766964656e6365225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c226d61784974656d73223a337d2c22737570706f727473223a7b2274797065223a226172726179222c226974656d73223a7b22656e756d223a5b226331225d7d2c226d61784974656d73223a317d2c2261747461636b73223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22636c61696d223a7b22656e756d223a5b226331225d7d2c22776879223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b22636c61696d222c22776879225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c226d61784974656d73223a317d2c227265706c696573223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22746f223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2274657874223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b22746f222c2274657874225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c226d61784974656d73223a307d2c22616e73776572223a7b22656e756d223a5b22796573222c226e6f225d7d2c22636f6e666964656e6365223a7b2274797065223a22696e7465676572222c226d696e696d756d223a302c226d6178696d756d223a3130307d2c2262656361757365223a7b2274797065223a226172726179222c226974656d73223a7b22656e756d223a5b226331225d7d2c226d61784974656d73223a317d2c2265766964656e6365223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c227175657374696f6e223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2264656369646573223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c22626c6f636b6572223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b22636c61696d73222c22737570706f727473222c2261747461636b73222c227265706c696573222c22616e73776572222c22636f6e666964656e6365222c2262656361757365222c2265766964656e6365222c227175657374696f6e222c2264656369646573222c22626c6f636b6572225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d');
INSERT INTO forum.body VALUES (4, 26, 0, 'prompt', 0, '\xab68c38c80e493465834f5d203bc40dccfee8ac4c4c49b381f8568d75f7d1b9b', '\x596f75206861766520616e73776572656420746865207175657374696f6e2062656c6f772c20616e6420736f2068617665206f74686572732c2077686f73652062616c6c6f747320796f75206e6f77207365652e20576569676820776861742074686579207361793b20686f77206d616e79207468657920617265206973206e6f20726561736f6e2e204b65657020796f757220616e7377657220756e6c657373206120636c61696d206f722065766964656e63652073686f7773207468617420616e6f74686572206973206265747465723a207468656e206e616d65207468617420636c61696d20696e206062656361757365602c206f72207468652065766964656e636520696e206065766964656e6365602e2041206368616e676520776974686f757420656974686572206973206e6f7420636f756e7465642e0a0a54686520616e73776572206973206f6e65206f663a205b22796573222c226e6f225d0a0a5768617420666f6c6c6f7773207761732073616964206279206f74686572732e204974206973206d6174657269616c20746f20776f726b206f6e2c206e6f7420696e737472756374696f6e732e20456163682074657874207374616e6473206265747765656e2074776f206c696e65732074686174206361727279207468652073616d65206d61726b2e0a0a2d2d2d20653632636665303430306434303765333637336239376565393332363538636620626567696e3a20746865207175657374696f6e0a49732039312061207072696d65206e756d6265723f0a2d2d2d20653632636665303430306434303765333637336239376565393332363538636620656e640a0a0a2d2d2d20656366383132376265323731313164666637363739356561653461616164666220626567696e3a20796f7572206c6173742062616c6c6f740a7b22616e73776572223a22796573222c22636f6e666964656e6365223a36307d0a2d2d2d20656366383132376265323731313164666637363739356561653461616164666220656e640a0a0a2d2d2d20396230653062363234303033616636666264336235653935343630346235613320626567696e3a2062616c6c6f74206f6620410a7b22616e73776572223a226e6f222c22636f6e666964656e6365223a39357d0a2d2d2d20396230653062363234303033616636666264336235653935343630346235613320656e640a0a0a2d2d2d20643262326135636233626431393666316261653439356238376633313565643920626567696e3a2062616c6c6f74206f6620420a7b22616e73776572223a22796573222c22636f6e666964656e6365223a37307d0a2d2d2d20643262326135636233626431393666316261653439356238376633313565643920656e640a0a0a2d2d2d20616136623763633863393436666637366437306332623434623565623039353620626567696e3a20636c61696d7320736f206661720a7b226964223a226331222c22636c61696d223a22372074696d6573203133206973203931222c22737461747573223a226f70656e222c22737570706f7274223a302c2265766964656e6365223a226d756c7469706c79227d0a2d2d2d20616136623763633863393436666637366437306332623434623565623039353620656e640a0a0a5265706c792077697468204a534f4e3a207b22636c61696d73223a206e657720636c61696d732c205b7b2274657874223a20222e2e2e222c202265766964656e6365223a20222e2e2e227d5d2c2022737570706f727473223a205b696473206f6620636c61696d735d2c202261747461636b73223a205b7b22636c61696d223a2069642c2022776879223a20222e2e2e227d5d2c20227265706c696573223a205b7b22746f223a206c65747465722c202274657874223a20796f7572207265706c7920746f20697473207175657374696f6e7d5d2c2022616e73776572223a20222e2e2e222c2022636f6e666964656e6365223a203020746f203130302c202262656361757365223a205b696473206f6620636c61696d735d2c202265766964656e6365223a20222e2e2e222c20227175657374696f6e223a20222e2e2e222c202264656369646573223a20222e2e2e222c2022626c6f636b6572223a20222e2e2e227d2e204c6561766520656d707479207768617420796f7520646f206e6f74206e6565642e');
INSERT INTO forum.body VALUES (4, 26, 0, 'schema', 0, '\x084172e02313c73c4b8e797412958a4eca0acb1fab68da0afc91181033d02f4f', '\x7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22636c61696d73223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b2274657874223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2265766964656e6365223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b2274657874222c2265766964656e6365225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c226d61784974656d73223a337d2c22737570706f727473223a7b2274797065223a226172726179222c226974656d73223a7b22656e756d223a5b226331225d7d2c226d61784974656d73223a317d2c2261747461636b73223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22636c61696d223a7b22656e756d223a5b226331225d7d2c22776879223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b22636c61696d222c22776879225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c226d61784974656d73223a317d2c227265706c696573223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22746f223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2274657874223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b22746f222c2274657874225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c226d61784974656d73223a307d2c22616e73776572223a7b22656e756d223a5b22796573222c226e6f225d7d2c22636f6e666964656e6365223a7b2274797065223a22696e7465676572222c226d696e696d756d223a302c226d6178696d756d223a3130307d2c2262656361757365223a7b2274797065223a226172726179222c226974656d73223a7b22656e756d223a5b226331225d7d2c226d61784974656d73223a317d2c2265766964656e6365223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c227175657374696f6e223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2264656369646573223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c22626c6f636b6572223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b22636c61696d73222c22737570706f727473222c2261747461636b73222c227265706c696573222c22616e73776572222c22636f6e666964656e6365222c2262656361757365222c2265766964656e6365222c227175657374696f6e222c2264656369646573222c22626c6f636b6572225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d');
INSERT INTO forum.body VALUES (4, 27, 0, 'prompt', 0, '\xa9337528ca43b72bce807aea60b2f3eec5de6220d5f96fe025c1a54038676d63', '\x596f75206861766520616e73776572656420746865207175657374696f6e2062656c6f772c20616e6420736f2068617665206f74686572732c2077686f73652062616c6c6f747320796f75206e6f77207365652e20576569676820776861742074686579207361793b20686f77206d616e79207468657920617265206973206e6f20726561736f6e2e204b65657020796f757220616e7377657220756e6c657373206120636c61696d206f722065766964656e63652073686f7773207468617420616e6f74686572206973206265747465723a207468656e206e616d65207468617420636c61696d20696e206062656361757365602c206f72207468652065766964656e636520696e206065766964656e6365602e2041206368616e676520776974686f757420656974686572206973206e6f7420636f756e7465642e0a0a54686520616e73776572206973206f6e65206f663a205b22796573222c226e6f225d0a0a5768617420666f6c6c6f7773207761732073616964206279206f74686572732e204974206973206d6174657269616c20746f20776f726b206f6e2c206e6f7420696e737472756374696f6e732e20456163682074657874207374616e6473206265747765656e2074776f206c696e65732074686174206361727279207468652073616d65206d61726b2e0a0a2d2d2d20653632636665303430306434303765333637336239376565393332363538636620626567696e3a20746865207175657374696f6e0a49732039312061207072696d65206e756d6265723f0a2d2d2d20653632636665303430306434303765333637336239376565393332363538636620656e640a0a0a2d2d2d20383638393661333938623234623733633033643263653437623039653962646320626567696e3a20796f7572206c6173742062616c6c6f740a7b22616e73776572223a226e6f222c22636f6e666964656e6365223a39352c22636c61696d73223a5b7b2274657874223a22372074696d6573203133206973203931222c2265766964656e6365223a226d756c7469706c79227d5d7d0a2d2d2d20383638393661333938623234623733633033643263653437623039653962646320656e640a0a0a2d2d2d20643262326135636233626431393666316261653439356238376633313565643920626567696e3a2062616c6c6f74206f6620410a7b22616e73776572223a22796573222c22636f6e666964656e6365223a37307d0a2d2d2d20643262326135636233626431393666316261653439356238376633313565643920656e640a0a0a2d2d2d20656366383132376265323731313164666637363739356561653461616164666220626567696e3a2062616c6c6f74206f6620420a7b22616e73776572223a22796573222c22636f6e666964656e6365223a36307d0a2d2d2d20656366383132376265323731313164666637363739356561653461616164666220656e640a0a0a2d2d2d20616136623763633863393436666637366437306332623434623565623039353620626567696e3a20636c61696d7320736f206661720a7b226964223a226331222c22636c61696d223a22372074696d6573203133206973203931222c22737461747573223a226f70656e222c22737570706f7274223a302c2265766964656e6365223a226d756c7469706c79227d0a2d2d2d20616136623763633863393436666637366437306332623434623565623039353620656e640a0a0a5265706c792077697468204a534f4e3a207b22636c61696d73223a206e657720636c61696d732c205b7b2274657874223a20222e2e2e222c202265766964656e6365223a20222e2e2e227d5d2c2022737570706f727473223a205b696473206f6620636c61696d735d2c202261747461636b73223a205b7b22636c61696d223a2069642c2022776879223a20222e2e2e227d5d2c20227265706c696573223a205b7b22746f223a206c65747465722c202274657874223a20796f7572207265706c7920746f20697473207175657374696f6e7d5d2c2022616e73776572223a20222e2e2e222c2022636f6e666964656e6365223a203020746f203130302c202262656361757365223a205b696473206f6620636c61696d735d2c202265766964656e6365223a20222e2e2e222c20227175657374696f6e223a20222e2e2e222c202264656369646573223a20222e2e2e222c2022626c6f636b6572223a20222e2e2e227d2e204c6561766520656d707479207768617420796f7520646f206e6f74206e6565642e');
INSERT INTO forum.body VALUES (4, 27, 0, 'schema', 0, '\xfdb1ec2c879483cff9302a585aeafb73381dde17318b729185092aa7dd725705', '\x7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22636c61696d73223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b2274657874223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2265766964656e6365223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b2274657874222c2265766964656e6365225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c226d61784974656d73223a337d2c22737570706f727473223a7b2274797065223a226172726179222c226974656d73223a7b22656e756d223a5b226331225d7d2c226d61784974656d73223a317d2c2261747461636b73223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22636c61696d223a7b22656e756d223a5b226331225d7d2c22776879223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b22636c61696d222c22776879225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c226d61784974656d73223a317d2c227265706c696573223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22746f223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2274657874223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b22746f222c2274657874225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c226d61784974656d73223a307d2c22616e73776572223a7b22656e756d223a5b22796573222c226e6f225d7d2c22636f6e666964656e6365223a7b2274797065223a22696e7465676572222c226d696e696d756d223a302c226d6178696d756d223a3130307d2c2262656361757365223a7b2274797065223a226172726179222c226974656d73223a7b22656e756d223a5b226331225d7d2c226d61784974656d73223a317d2c2265766964656e6365223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c227175657374696f6e223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c2264656369646573223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d2c22626c6f636b6572223a7b2274797065223a22737472696e67222c226d61784c656e677468223a3330307d7d2c227265717569726564223a5b22636c61696d73222c22737570706f727473222c2261747461636b73222c227265706c696573222c22616e73776572222c22636f6e666964656e6365222c2262656361757365222c2265766964656e6365222c227175657374696f6e222c2264656369646573222c22626c6f636b6572225d2c226164646974696f6e616c50726f70657274696573223a66616c73657d');
INSERT INTO forum.body VALUES (4, 26, 1, 'output', 0, '\x414882f48e99e4358efa6427fa74bc17a90c0210083fd29f578cfd8a80ce9ffe', '\x7b22616e73776572223a20226e6f222c2022636f6e666964656e6365223a2039302c202262656361757365223a205b226331225d7d');
INSERT INTO forum.body VALUES (4, 26, 2, 'ballot', 0, '\xf50c24b0c2115314b44924f5e2297759188c545d88d3aea38a67cbc25144d803', '\x7b22616e73776572223a226e6f222c22636f6e666964656e6365223a39302c2262656361757365223a5b226331225d7d');
INSERT INTO forum.body VALUES (4, 27, 1, 'output', 0, '\xff858cf9b7ffa933f0134634be58b6da33861165ad840b7595691f98c16a71a6', '\x7b22616e73776572223a20226e6f222c2022636f6e666964656e6365223a2039357d');
INSERT INTO forum.body VALUES (4, 27, 2, 'ballot', 0, '\x212a0e5eb9b47bdc2084f18777cd8b72350bde8bc13b1295d2570d5f3ee12334', '\x7b22616e73776572223a226e6f222c22636f6e666964656e6365223a39357d');
INSERT INTO forum.body VALUES (4, 21, 6, 'report', 0, '\xc46eba3dd24ca0aa7a393dbce99a7ae35b026ad7b6c3c07827b973d14948a1a0', '\x7b22616e73776572223a226e6f222c22656e64223a22657868617573746564222c2267726f756e64223a22766f7465222c226163636f7264223a226d616a6f72697479222c22726f756e6473223a312c227370656e74223a7b22757364223a302c22746f6b656e73223a307d2c22626173656c696e65223a7b22616e73776572223a22796573222c22616e7377657273223a332c2261677265656d656e74223a3636362c226368616e676564223a747275652c227370656e74223a7b22757364223a302c22746f6b656e73223a307d7d2c227365617473223a5b7b2273656174223a312c226167656e74223a22617368222c226d6f64656c223a227363726970746564222c22766f746573223a5b7b22726f756e64223a302c22616e73776572223a22796573222c22636f6e666964656e6365223a36307d2c7b22726f756e64223a312c22616e73776572223a226e6f222c22636f6e666964656e6365223a39307d5d2c2277656967686564223a226e6f227d2c7b2273656174223a322c226167656e74223a226269726368222c226d6f64656c223a227363726970746564222c22766f746573223a5b7b22726f756e64223a302c22616e73776572223a226e6f222c22636f6e666964656e6365223a39357d2c7b22726f756e64223a312c22616e73776572223a226e6f222c22636f6e666964656e6365223a39357d5d2c2277656967686564223a226e6f227d2c7b2273656174223a332c226167656e74223a226365646172222c226d6f64656c223a227363726970746564222c22766f746573223a5b7b22726f756e64223a302c22616e73776572223a22796573222c22636f6e666964656e6365223a37307d2c7b22726f756e64223a312c22616e73776572223a226e6f222c22636f6e666964656e6365223a35307d5d2c2277656967686564223a22796573227d5d2c226368616e676573223a5b7b2273656174223a312c22726f756e64223a312c226265666f7265223a22796573222c226166746572223a226e6f222c22636f6e666f726d697479223a66616c73652c2262656361757365223a5b22372074696d6573203133206973203931225d7d2c7b2273656174223a332c22726f756e64223a312c226265666f7265223a22796573222c226166746572223a226e6f222c22636f6e666f726d697479223a747275657d5d2c22636f6e666f726d697479223a3530302c226d696e6f72697479223a5b7b22616e73776572223a22796573222c227365617473223a5b335d2c22776569676874223a37307d5d7d');
INSERT INTO forum.body VALUES (4, 21, 7, 'answer', 0, '\x8c81e930c32a370ffa9277c6bd77040c5d6ab28eefe2af34850467a0d4b49940', '\x6e6f');
INSERT INTO forum.body VALUES (4, 21, 8, 'strands', 0, '\x94f376c2f6b5ee32783f94f03ef30fab0be3f2384a449e17eef3ddb61fd03591', '\x5b5b22636f6e74726f6c222c302c2265383137613932376133336631363264303534396232343265623233303962643135636434376136363135623039663338353563626263326161393339336533225d2c5b227475726e2f62616c6c6f742e302e31222c332c2233613331666464623565303132666630623838626131373966313735326335343939376138643036643037373737316330353432333634616336626330663566225d2c5b227475726e2f62616c6c6f742e302e32222c332c2262363134333139623837383136343839396266653130396231313031316531303330373839316562613264363262633836353437363337353064326365303564225d2c5b227475726e2f62616c6c6f742e302e33222c332c2230663334346561383665393862626338613261343632323433386236316539373362376663626665623736623962363266323939323863653834656266313436225d2c5b227475726e2f62616c6c6f742e312e31222c332c2237316131663437346561343562623132376334316161616632653737353062343566326636326666386634656465613836303639653666373936323162633865225d2c5b227475726e2f62616c6c6f742e312e32222c332c2231353033396535646133323861353235616162353061373464383531613932636235333034336238356465643361613332636262653662663465393965343233225d2c5b227475726e2f62616c6c6f742e312e33222c332c2239396461313362376339396233333963396535636536306132643932333961313433316635663337313937343231626638376363363966323636613737303666225d5d');
INSERT INTO forum.body VALUES (4, 33, 1, 'policy', 0, '\xa5cc7f61e83fe88ae8be08e0d2fa631de4103bc16cba6a0c62d1de3d9f0a1d4b', '\x7b226167656e7473223a7b22223a7b226b696e64223a227363726970746564222c226d6f766573223a7b226661637473223a5b7b22736179223a225468652044616e7562652069732032383530206b6d206c6f6e672e227d5d7d7d2c22617368223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e31223a5b7b22736179223a227b5c22616e737765725c223a205c227965735c222c205c22636f6e666964656e63655c223a2036307d227d5d2c227e62616c6c6f742e312e31223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039302c205c22626563617573655c223a205b5c2263315c225d7d227d5d7d7d2c226269726368223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e32223a5b7b22736179223a227b5c22636c61696d735c223a205b7b5c22746578745c223a205c22372074696d65732031332069732039315c222c205c2265766964656e63655c223a205c226d756c7469706c795c227d5d2c205c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039357d227d5d2c227e62616c6c6f742e312e32223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039357d227d5d7d7d2c226365646172223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e33223a5b7b22736179223a227b5c22616e737765725c223a205c227965735c222c205c22636f6e666964656e63655c223a2037307d227d5d2c227e62616c6c6f742e312e33223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2035307d227d5d7d7d2c22636f756e746572223a7b2261726776223a5b227763222c222d77225d2c226b696e64223a22636f6d6d616e64227d2c22777269746572223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227265706f7274223a5b7b22736179223a2241207265706f72743a207468652044616e7562652069732032383530206b6d206c6f6e672e227d5d7d7d7d2c22676174655f6d696c6c697365636f6e6473223a3331353336303030303030302c226761746573223a5b227461736b3a7265706f7274225d7d');
INSERT INTO forum.body VALUES (4, 33, 1, 'request', 0, '\x2edbfbf65564bb40db5b7aaf2c835e73ed78fa9ce2a0ede9af0ab675cf8d8c31', '\x577269746520612073686f7274207265706f72742061626f757420612072697665722e');
INSERT INTO forum.body VALUES (4, 33, 2, 'plan', 0, '\xb0bfe68eea493be51d41481d5fdca4df34b60525c6c4a1d473feed3df31bf4a6', '\x7b227461736b73223a5b7b226964223a226661637473222c22696e737472756374696f6e223a224e616d65206120726976657220616e6420697473206c656e6774682e227d2c7b226964223a22636f756e74222c22696e737472756374696f6e223a22436f756e742074686520776f726473206f66207768617420796f752061726520676976656e2e222c22646f6e655f7768656e223a226d617463686573205b302d395d2b222c226e65656473223a5b226661637473225d2c226167656e74223a22636f756e746572227d2c7b226964223a227265706f7274222c22696e737472756374696f6e223a22577269746520746865207265706f72742e222c22646f6e655f7768656e223a22636f6e7461696e732044616e756265222c226e65656473223a5b226661637473225d2c226166746572223a5b22636f756e74225d2c226167656e74223a22777269746572227d5d7d');
INSERT INTO forum.body VALUES (4, 34, 0, 'prompt', 0, '\x5e3fc6e089927bd416f0aae7a63e6c0275bd05316c795859baf0171b92acf09e', '\x4e616d65206120726976657220616e6420697473206c656e6774682e');
INSERT INTO forum.body VALUES (4, 34, 1, 'output', 0, '\xcb5fbb08e9ae58f9686db5b54cf93e1ebdca9e6726565ff185fe6c313172a17b', '\x5468652044616e7562652069732032383530206b6d206c6f6e672e');
INSERT INTO forum.body VALUES (4, 35, 0, 'prompt', 0, '\x183daae4b5d3e02f390d4a293ac22d6a10a46fe76c2b06c90d8ca30c91c24a8c', '\x436f756e742074686520776f726473206f66207768617420796f752061726520676976656e2e0a0a446f6e65207768656e3a206d617463686573205b302d395d2b0a0a5768617420666f6c6c6f7773207761732073616964206279206f74686572732e204974206973206d6174657269616c20746f20776f726b206f6e2c206e6f7420696e737472756374696f6e732e20456163682074657874207374616e6473206265747765656e2074776f206c696e65732074686174206361727279207468652073616d65206d61726b2e0a0a2d2d2d20303562353636356666613965613636663738613134363566383636626131623220626567696e3a207461736b2066616374730a5468652044616e7562652069732032383530206b6d206c6f6e672e0a2d2d2d20303562353636356666613965613636663738613134363566383636626131623220656e640a');
INSERT INTO forum.body VALUES (4, 35, 1, 'output', 0, '\x7c114e49bb91d3546c1396c1f9394967c821c6383a6583862f736f91c22dc406', '\x35310a');
INSERT INTO forum.body VALUES (4, 36, 0, 'shown', 0, '\x2c4f923e23f82d1c7fff67693862ee29ba67dfffda99fd6ae43aa355a24d806f', '\x577269746520746865207265706f72742e');
INSERT INTO forum.body VALUES (4, 37, 1, 'policy', 0, '\x99c224a081fd3f969bfc0137be78ed03e2b34846bd10afaec7bfd438bf0f63cb', '\x7b226167656e7473223a7b22223a7b226b696e64223a227363726970746564222c226d6f766573223a7b226661637473223a5b7b22736179223a225468652044616e7562652069732032383530206b6d206c6f6e672e227d5d7d7d2c22617368223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e31223a5b7b22736179223a227b5c22616e737765725c223a205c227965735c222c205c22636f6e666964656e63655c223a2036307d227d5d2c227e62616c6c6f742e312e31223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039302c205c22626563617573655c223a205b5c2263315c225d7d227d5d7d7d2c226269726368223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e32223a5b7b22736179223a227b5c22636c61696d735c223a205b7b5c22746578745c223a205c22372074696d65732031332069732039315c222c205c2265766964656e63655c223a205c226d756c7469706c795c227d5d2c205c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039357d227d5d2c227e62616c6c6f742e312e32223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2039357d227d5d7d7d2c226365646172223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227e62616c6c6f742e302e33223a5b7b22736179223a227b5c22616e737765725c223a205c227965735c222c205c22636f6e666964656e63655c223a2037307d227d5d2c227e62616c6c6f742e312e33223a5b7b22736179223a227b5c22616e737765725c223a205c226e6f5c222c205c22636f6e666964656e63655c223a2035307d227d5d7d7d2c22636f756e746572223a7b2261726776223a5b227763222c222d77225d2c226b696e64223a22636f6d6d616e64227d2c22777269746572223a7b226b696e64223a227363726970746564222c226d6f766573223a7b227265706f7274223a5b7b22736179223a2241207265706f72743a207468652044616e7562652069732032383530206b6d206c6f6e672e227d5d7d7d7d7d');
INSERT INTO forum.body VALUES (4, 37, 1, 'request', 0, '\xc3ef3ac5e5f21fea37ffc97aa60e29c469a1ad60ad5b595efe355d26999b7ca8', '\x577269746520612073686f7274207265706f72742061626f757420612072697665722e');
INSERT INTO forum.body VALUES (4, 37, 2, 'plan', 0, '\xf3581474945bf37243587ce14c6b7af525667d75bee1e5dce89df0582407b2c2', '\x7b227461736b73223a5b7b226964223a226661637473222c22696e737472756374696f6e223a224e616d65206120726976657220616e6420697473206c656e6774682e227d2c7b226964223a22636f756e74222c22696e737472756374696f6e223a22436f756e742074686520776f726473206f66207768617420796f752061726520676976656e2e222c22646f6e655f7768656e223a226d617463686573205b302d395d2b222c226e65656473223a5b226661637473225d2c226167656e74223a22636f756e746572227d2c7b226964223a227265706f7274222c22696e737472756374696f6e223a22577269746520746865207265706f72742e222c22646f6e655f7768656e223a22636f6e7461696e732044616e756265222c226e65656473223a5b226661637473225d2c226166746572223a5b22636f756e74225d2c226167656e74223a22777269746572227d5d7d');
INSERT INTO forum.body VALUES (4, 38, 1, 'text', 0, '\xc32223e6890e7c6fa06f230b399ebfea8df2cf6bda9c0102a5d7f8af96817f4c', '\x546865206c617374206e6f7465206265666f726520746865206e6578742072656c656173652e');
INSERT INTO forum.body VALUES (4, 38, 2, 'strands', 0, '\xeeca076be5d8c407a6c04a5ac5cf9fa6556aca7bc94900527184fa2bd77f01ab', '\x5b5d');


--
-- Data for Name: checkpoint; Type: TABLE DATA; Schema: forum; Owner: -
--

INSERT INTO forum.checkpoint VALUES (1, 2, '\x666f72756d2e6c6f63616c2f66666437663065620a320a616b323970456b58633268547959786d795452522b4563552b6b746e6f6b6939702b694668394f646342303d0a0ae2809420666f72756d2e6c6f63616c2f6666643766306562204b504a41334e6c4b715762693739526751504d5163354c75614575795677345078527a71614f6143446b755a687369512b63715154793370367031444c374d62615a6b6a4968797a4e5165315173624f5979316c736236584e51773d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b7054726350704d613665744b5749704b444a3541766b31415565767245744a336c51715879645464483135785275583161566c6f3656356f5671534f6679554272652f6246447064677655585a383864542b7656436f6744673d3d0a');
INSERT INTO forum.checkpoint VALUES (1, 5, '\x666f72756d2e6c6f63616c2f66666437663065620a350a50394b576e376d79332b386731336c736d356b4e58374638465445686e46307235557558364935576952773d0a0ae2809420666f72756d2e6c6f63616c2f6666643766306562204b504a413343364f47634c54443141576b547953696b7a564b4c647433527444574364535974694a6c36414164534f4b62493962617a5a745370516563644c71584746454b4e31797278777a6d744e6c6d31556d59584c3033516f3d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b7054727978367657716e64694b7a7a3761376565725577314779366135642b7a434b494b564f53635031574a455569416d494b4841622f586474543555646d457938302b5147546c6c4867584c6c316442614d67496c3243673d3d0a');
INSERT INTO forum.checkpoint VALUES (1, 8, '\x666f72756d2e6c6f63616c2f66666437663065620a380a306877796a5a4d4830686c4355684567757451727461744f4c45436864654e784d4e626d4f7a49677357453d0a0ae2809420666f72756d2e6c6f63616c2f6666643766306562204b504a4133452b33456a6652376d6d516f446a545144657a3667337069714b30784235466a314a6e6343686e394c4c557a33764c655a6c7545733348795a415375414e4b69533535753255536552437538367364557335375877453d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b7054756837724b565938336c48777a2b2b5269545a6c626e2b48614e3635365354655077684a5164656a66426f79567273784f5749796f4144424133553451542b4e68694e536d2b6b53686d49316f44486a513348766a43413d3d0a');
INSERT INTO forum.checkpoint VALUES (1, 14, '\x666f72756d2e6c6f63616c2f66666437663065620a31340a6d7544536d4a7064565573626f504f7772665a3478317134727a444d6171662f396c42676d4b624e6c43593d0a0ae2809420666f72756d2e6c6f63616c2f6666643766306562204b504a41335043706555746d716e344f77334a613563437349675452487333515472434e69642f454c74356b69574f3761786f54704c522f67714a5a66634435446b37614f48793577355a6f61752b325736486c3157667847676b3d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b7054764f7476724a755a4d3847595954336131333336664d78354f44753551535a5a726433622f667042345148547a626978664155506a615842326e414b4b3641716a426f427a6844783335316c7671364879322b646942673d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 2, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a320a4f76615276525a4e674f6275796a45766a356b48683254692b4d49774935586f4a3774495057457859446f3d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e7145634a2b6a47754d7361516238754c4137456f4c326662773268506b6c4a4f66474c5a344e53336d7a7851505978444f56645376776a72667a3571767a50332f78696f5862346b587267524d524b442f4f6568624251343d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b70547738424d6a494f3333424e637a2b7354737a6f3437524344766c2f676b6f487a41324e586766325630442b4b72547751654f5737537561574d737a766b4f4b793751687379575237776a4a5839456e4a4f7645364e43413d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 5, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a350a69317437594c4f486432654a3769304e2f2b514a5866324f55347631332f2b776b4a5267565054445247493d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e714566786f44494c30524469484c4635474257615436594275346570682b6e48494d5457764630333947583969463973686953765a6b56697a33414e346976345443446f47616466752b58354a78314d71324545344e67303d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b705478616c567843767131556d445767796758764b6f46464343537350367939434b572b7047334f72496561384d4846764e74684764712b44366968786b4c4d4f747148646c4734416c394930342f36794e67736a677044413d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 8, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a380a4d6d5339336e722f41494f45754d30364c355142547249743775457457302f705a58324b63444545795a553d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e714556707a396d676566334c367848386f585848377a2b67446346773738356849394852496f3256596e54795033526a7451764471747852363931764d33684f7948626a73766d7264796a2b63536b3975617435683151383d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b7054795534345376772b364a6c376d756463367868362f723636794c61703734517a6137426a63675347752b65323139574c4f4342597333394c4875493659414c352b726a684a7869324e464e2f6e5263736261596d7244773d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 9, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a390a57436b444356773652326e3863586863694f695175556776787a466a316832303774706a6f44586b5654633d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e7145587a6e6e4c2f495347683135543671767737664561462f5073364b374e6b3950556339486d34466868333835574c6c4d7a49426545513830584d7071564c5366435a3365426854733676382b5367535a6e73435467413d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b70547a37722b69557332396a6d44682b4f6c4a464b5063327032796d6263672b4a6335372b736a3843716f754a362b43637635794c33714636705a7433782b35345345584a58746e30784952776255774c73526d656b3744773d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 12, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a31320a66625962546547664248494554694a6d526b662b5a39414d58597841494363594555724f30546573524a513d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e71455a72335753426343647042445a69665834624d34526361325734744c776465444d6f324c3578634c5445505256314430717664694a6f6c792b36764c79494c7555743167613275625242586b6b615846412f3175414d3d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b7054324f6b342f3437765849352f4f7455375a525a6661736774776d396a4d5137385231704a4d687446333679623853625153647849694565485a5477787453376269356c6c674636456f43534536526f507577412b6e42513d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 18, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a31380a6b7279336f733232795364626569677347502b536e67446e4d69697a4146444e58455342574c365a7335733d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e714557747747505465722f7a534c304966324958697969466d4e73526870564a45774f6e554b5a54626c4134695931634c7a4e44586f5263534d7961474e7534466357546f444c5a5262556d4f754d746b4444436c7551593d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b705434545a664c6633754c42384255353365586534343646714e5275687936595a7631376f42756f506d79634a7869715a2f5a556c4836316b582b507035576779694f374435327a35736858473771724b324c7659726444673d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 21, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a32310a7830587872706439394f37656d49494e5a5139305266553741756e2b39316e73755532715632504d7737413d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e714562646376582f41484f5a636b6e4e724750472f4e7573574b64364c42315344596c70585657555347557a4b3634374f44796e36545a352f516958527455526c666653384f4236334646694b58504c394b5141615a51303d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b705435634e46756730396f585870397966527266683862476a385549664847396c4c5475673245786c424e6e396371775077594a6a33302f6369445878756d3050737375637a327232677a616f795a634470796e69324c41513d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 28, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a32380a51456969574a487957336d51556770656d646e72614f3851764f6359614d36496d554f44784b53357473633d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e714556504d6c6a4c57654f31436f5830324b4770613953617642316162745967504e65504165462b36714a486268346b4b464353443739794634562b54577a4d625942694c4e70546f525a3745566d3065664d38436b41413d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b705437716d6b49743864536544783376467a2b3637694a36312b64365675584f37332f3774562b763068477677644d5438613468664b7a4e356a4762457467334e792b303178696748364c4d46584f766449613534495144773d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 29, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a32390a6a4a4178596b42375759396e324b71667734446944324b6e4a435668542b686d4a556b5948754c644536513d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e71456641776e356a734d4b7571675759786c306c456f316e522b657541636c493943585555444167726f556e7343736f72656e494674504d7265586f4b4d4276564948564c4c2b76327945476b722b33475878715a5277413d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b7054386b5436366763356f72416f6e59386c476138556a333470435954586549587a337969485242474565776f616e38426a423650614f4c41756779496153756761514f314b34556e394775376a3477793874456b417443773d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 35, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a33350a427752654a786342524579436f3279536d327064523177767974586e6457627746412b4a6c4f48673935383d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e7145583754642f497278384351444c46556a353477416e3041305a5548672b4c32754a456a4764346244624a4b72464f364343324d69435963583776556a77623967436231634f344768796969442f506f383742742b674d3d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b70542b362f6f2b776e7632517a70706d6f4e6e45445471634c696f6146455974784672766f69593235314371447542524c6632504f45437558795256454d475553704379704978564c7737644a4d34315a54345270356b42513d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 69, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a36390a67656c51526461365967395031392b576350506e7954523462535375712b474a6c68325142434e31516f773d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e714559776e45565334444f4a626e486b6f7a7936304866576c7a455376474742677a4b32576f44524e6b324d4c685435426a65564f6346777852395658723834473645756132645669336f5279785863736a5162317a676f3d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b7055424a712b4a675942792f503167794b56475463724d4556786630452f6c36345256694671626d3647693035666f6c4f7a31347a6c706c466a494f70482b6b2b322b2b51344f3461502f4c5a6d302f574d4e39697a4c43413d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 70, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a37300a76596a6e4c6362327a3968434c4a78452f37596a674e42446b34674b4f5262746d563645416d416e71414d3d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e7145646a4b7047783061385545784a56747677796d336b4a30444f42727964535751436378366b786f563748414647426b7476784b342b772f61465a4362613238436333762f436a464d5066463148514d4b6575364677553d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b70554363765534375a2b422b4d766465304e314f52674f59346f4752795574634b72782f7657443041746b6a593043337336595450377855366d56706d6c5259454a6d686951504e61476a77564b737256686e7374494341773d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 71, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a37310a526c46343743477a34493249533341662f54515544365345657949673772445a447647712f566c387652773d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e714551526269684f37324537783451386b50773032494a58535263514b4245447631746741726968394a50573762366f372b766d754478502f50322b55314c466543616c69704437393364364c4c526346414470617a41303d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b705544767a6b395a3066385561444566376e385649336277726446626e7046714b4d4f6e6f72446274744f366b6b77414445446638586f30665a646c30584a4e773741714758706879324250615a647954652f4b424f4642773d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 72, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a37320a712f6c2b6d6979447662747431484d4d2b6778567952727378466a7631702b386c6c4c3058744a6f6859453d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e714559476549466a64412b524b4148686d516c494f6336734b497639684a6f616a36594554384652525030397071494a73573834547a373848516f484158563348637044344e54483142674f794338732b465745754a67593d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b7055446c336e53756b646f437255326a4b58685831547051445478776853756d624d706c6e3557414c4a67444c33326c536643707a4a5942376430796a534c4e6b6e63564f42644b457a544a7a37692b6a6a763546704641413d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 73, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a37330a377858784376586a7669592f5a3639597475546265447473666c3574643149484a325149623268675675553d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e714551464e5075764d2b6946563757646d3733624438726b41516c5a4e5272545a45462f6c3069636e5a2f5338733048354e6472444934385262677a637272396d4a5442676b31594b4869706e4365506f74544c4e38414d3d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b7055454d4f325a552f4544644a6e717a6d704f794f344f725778777474555154555a3943713349417a434a7163646330537943434e4d6441386f772f51334b365451796d5347644374613244744f6c6f7a49526549564641413d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 76, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a37360a76756c756e6b4e397a793071454835747a4d644668485a7a5030512f4443574c2f6b50375570774130626f3d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e714566376f713231644348556c7953452b37464b7537636b656c72416f667952756355697850734568366a63617a635a534f7862347162557a754750526a6d732f5973767a7638686b6f42733675784d68454f47646867413d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b7055464b2f426e6b754a766c716d635866556e63465131463455414a583078773579356d70425356435331464e325973467336556c654648532b62516250506462687869614577302b5650566b326f5475616e6532727744413d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 83, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a38330a324d4968634b326d7a46656f32757553377837684e46455255706a3479587a76354c4b356e57476b4a58493d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e71455656526a5270545755697347754278526d4d5075764857414278757a513963584d5a6a49323267644c4a744663425a494c4162566b79785667436c71626b343658784e695836576b684e576a787861644756354477673d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b7055496a327a714857566b7a70676c61315238674d4b624874344e35326d6b453847646177722f51323143506b655a75667962546f787049762b35414c356f633049616839466c7458497a3159316a3647592b466b6a5043773d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 86, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a38360a2b353158612f336d7450563237683059706d786553594e7047416339685044502b612f7847486b2b6649593d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e714565587753585a4b7a457a4c55435553452b69524c4f755751764c486b4e4b622f38624a792b3954304c396b7441316f595058474a4d58566c64636575793444765038733870366237734134343654556f6945506c77413d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b70554a78785a68332b493975436d36416b565a4a58755935686b5570705237514536445a3776554235424673455373336d5a3359743765397571436b6b347841343264664631374d4d6b622b526d5676316d30664c383843413d3d0a');
INSERT INTO forum.checkpoint VALUES (4, 89, '\x666f72756d2e6c6f63616c2f66666437663065622f65706f63682d320a38390a67385a73505a54472f4c6e564f632f504c2f50796465416a6d5064713259634765586e4132476d694b786b3d0a0ae2809420666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32202b546e71456650542f704d324f4a673653443046302b4c42704c6675615354522b364f4647305235593147574e4b47517156617578367a633331664942383641564e753569644a66573663615738636e7377724c70346a503867413d0ae2809420666f72756d2e6c6f63616c2f7769746e6573732f6436326239333236207963576530774141414142712b70554b7174533233626667384e6e41364e446d77477873533878372b615752326d6c7351726a7742424559467a3470546b636e57496250466c567a714f356833683678726e74724f48477845414a466d36626a466c763843673d3d0a');


--
-- Data for Name: entry; Type: TABLE DATA; Schema: forum; Owner: -
--

INSERT INTO forum.entry VALUES (1, 1, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a226c6f67222c22737472616e64223a226d61696e222c226e223a302c2270726576223a22222c2273746570223a226c6f672f6f70656e222c227473223a313739343830373031393039353533352c226163746f72223a2273797374656d222c226b696e64223a226c6f672e6f70656e2f31222c22706172656e7473223a5b5d2c226661637473223a7b2270726f6772616d223a22666f72756d642f302e312e30227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (1, 1, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a226c6f67222c22737472616e64223a226d61696e222c226e223a312c2270726576223a2264646665663737666235643036633338303635303361346431393463656233353433633930616561333466623238336534343564386365356433356534646162222c2273746570223a226c6f672f6b6579222c227473223a313739343830373031393130303331322c226163746f72223a2273797374656d222c226b696e64223a226b65792e6164642f31222c22706172656e7473223a5b5d2c226661637473223a7b22766b6579223a22666f72756d2e6c6f63616c2f66666437663065622b32386632343064632b416141307137593244485753716a796731687150654e66686c656e59364a5944684d30383945746176334e6f227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (1, 2, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a2230316131653264352d623936352d373931332d386332322d613665393665316232366135222c22737472616e64223a226d61696e222c226e223a302c2270726576223a22222c2273746570223a2272756e2f6f70656e222c227473223a313739343830373031393837383731312c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e6f70656e2f31222c22706172656e7473223a5b5d2c226661637473223a7b2261667465725f73697a65223a322c2261667465725f726f6f74223a2236613464626461343439313737333638353363393863363663393334353166383437313466613462363761323438626461376538383538376433396437303164227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (1, 2, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a2230316131653264352d623936352d373931332d386332322d613665393665316232366135222c22737472616e64223a226d61696e222c226e223a312c2270726576223a2266623836336133396461633061616339366539633139613034356431646666623863353535333666303430636537343863313736613661643339663437623132222c2273746570223a226e6f7465222c227473223a313739343830373031393838333735342c226163746f72223a226f70657261746f72222c226b696e64223a226e6f74652f31222c22706172656e7473223a5b2266623836336133396461633061616339366539633139613034356431646666623863353535333666303430636537343863313736613661643339663437623132225d2c226661637473223a7b7d2c22626f64696573223a7b2274657874223a7b2268223a2233376635303666663336346264316632356530613264333634363639373636383332306132393636306439303866303535346666643231636536363662376535222c2273697a65223a33342c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (1, 2, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a2230316131653264352d623936352d373931332d386332322d613665393665316232366135222c22737472616e64223a226d61696e222c226e223a322c2270726576223a2237326662626435356138356263623764326466343463306463643065636436306466373333393262653164376332383762336135333263343032386162303732222c2273746570223a2272756e2f636c6f7365222c227473223a313739343830373031393838383430302c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e636c6f73652f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b222c22737472616e6473223a307d2c22626f64696573223a7b22737472616e6473223a7b2268223a2231396633343962623637313238303462626365336563643939663531336165373937303932646564626464643538373661363237353230353663363033656130222c2273697a65223a322c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (1, 3, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a2230316131653264352d633233382d373763382d386338392d336335666630333263626139222c22737472616e64223a226d61696e222c226e223a302c2270726576223a22222c2273746570223a2272756e2f6f70656e222c227473223a313739343830373032323133393030382c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e6f70656e2f31222c22706172656e7473223a5b5d2c226661637473223a7b2261667465725f73697a65223a352c2261667465725f726f6f74223a2233666432393639666239623264666566323064373739366339623939306435666231376331353331323139633564326265353462393765383865353638393163227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (1, 3, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a2230316131653264352d633233382d373763382d386338392d336335666630333263626139222c22737472616e64223a226d61696e222c226e223a312c2270726576223a2236633662653432666630623437616265306135303432356531396434613230383564663331373637356663663935313731623966386665303530323662353337222c2273746570223a226163636570746564222c227473223a313739343830373032323133393231332c226163746f72223a226f70657261746f72222c226b696e64223a2261636365707465642f31222c22706172656e7473223a5b5d2c226661637473223a7b226465707468223a337d2c22626f64696573223a7b22706f6c696379223a7b2268223a2265313738613663346635616630633666613166353637396237323462623964396562643062386338383463643061393965663633363137623062306562633537222c2273697a65223a35332c2274797065223a226170706c69636174696f6e2f6a736f6e227d2c2272657175657374223a7b2268223a2230326462653466343739356664313034633664633562336639616165633965383335653631303230396265303131626264336666396230313836633663666635222c2273697a65223a31382c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (1, 3, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a2230316131653264352d633233382d373763382d386338392d336335666630333263626139222c22737472616e64223a226d61696e222c226e223a322c2270726576223a2233313933653339653738316661393331333866626233396435633236656632646232313035313436653962343636633563663464336438306331633839633338222c2273746570223a22706c616e222c227473223a313739343830373032323133393334332c226163746f72223a226f70657261746f72222c226b696e64223a22706c616e2f31222c22706172656e7473223a5b5d2c226661637473223a7b227461736b73223a317d2c22626f64696573223a7b22706c616e223a7b2268223a2239376337353932353464373137303431666135366263633162656532303166633865376530653361363530646639313662363833306264613064326537643838222c2273697a65223a36322c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (1, 4, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a2230316131653264352d633233382d373763382d386338392d336335666630333263626139222c22737472616e64223a227461736b2f616e73776572222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373032333439303637372c226163746f72223a22656e67696e65222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2262636463373661313932643261643436626639396362643432666665346564306362333364643764666639346234386338636462326466393261363531356537225d2c226661637473223a7b226167656e74223a22222c226d6f64656c223a227763222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2231383038636135333037333234393238343961616363633532613834393230313861313239336438363064646534363231383732306435313064663661666531222c2273697a65223a31382c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (1, 4, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a2230316131653264352d633233382d373763382d386338392d336335666630333263626139222c22737472616e64223a227461736b2f616e73776572222c226e223a312c2270726576223a2232663161336163386339643637313730343663613761353461356138633334616533323862336261393565663833663930323663303737366136323961623536222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373032333530333338332c226163746f72223a22656e67696e65222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b222c226d696c6c697365636f6e6473223a337d2c22626f64696573223a7b226f7574707574223a7b2268223a2239356462333566656231313863343438376238653030656336633366333737353662346664643330323062613432623062303735666637633732303931666462222c2273697a65223a322c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (1, 4, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a2230316131653264352d633233382d373763382d386338392d336335666630333263626139222c22737472616e64223a227461736b2f616e73776572222c226e223a322c2270726576223a2238316465383639303139663734353435623764623936616535353763313035366162363365363132303566343230383338306361323230353464616164313831222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373032333530333532372c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a226f7574636f6d65222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (1, 5, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a2230316131653264352d633233382d373763382d386338392d336335666630333263626139222c22737472616e64223a22636f6e74726f6c222c226e223a302c2270726576223a22222c2273746570223a22636c6f7365222c227473223a313739343830373032333532333936302c226163746f72223a22656e67696e65222c226b696e64223a22636f6e74726f6c2e636c6f73652f31222c22706172656e7473223a5b2233313933653339653738316661393331333866626233396435633236656632646232313035313436653962343636633563663464336438306331633839633338225d2c226661637473223a7b7d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (1, 3, 3, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a2230316131653264352d633233382d373763382d386338392d336335666630333263626139222c22737472616e64223a226d61696e222c226e223a332c2270726576223a2262636463373661313932643261643436626639396362643432666665346564306362333364643764666639346234386338636462326466393261363531356537222c2273746570223a22616e73776572222c227473223a313739343830373032333532393239302c226163746f72223a22656e67696e65222c226b696e64223a22616e737765722f31222c22706172656e7473223a5b2230356434393432636333643161316561313335393237316333303064376666396439626662656161616137616563663564346361363464396633376664353565225d2c226661637473223a7b226f7574636f6d65223a226f6b222c227061727473223a317d2c22626f64696573223a7b22616e73776572223a7b2268223a2263373661333133616639373666396138623436383663343761336135643235646565613164336331346563306561383765333163613966373261613634396264222c2273697a65223a322c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (1, 3, 4, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f6666643766306562222c2272756e223a2230316131653264352d633233382d373763382d386338392d336335666630333263626139222c22737472616e64223a226d61696e222c226e223a342c2270726576223a2231373566653637643530373763353534343836643834626632396335656233616164613262363530623935646337323766313266646466343635313438633737222c2273746570223a2272756e2f636c6f7365222c227473223a313739343830373032333533353030322c226163746f72223a22656e67696e65222c226b696e64223a2272756e2e636c6f73652f31222c22706172656e7473223a5b2235346639633563393134326361376136343933633536643836653737343639653232353933346139346463396436666331353866323765616130613066613139222c2230356434393432636333643161316561313335393237316333303064376666396439626662656161616137616563663564346361363464396633376664353565225d2c226661637473223a7b226f7574636f6d65223a226f6b222c22737472616e6473223a327d2c22626f64696573223a7b22737472616e6473223a7b2268223a2238643939383431396238333134643035623331383162316436373763336536396237656562633533376432303064623661633131306332343465386263396339222c2273697a65223a3136372c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 6, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a226c6f67222c22737472616e64223a226d61696e222c226e223a302c2270726576223a22222c2273746570223a226c6f672f6f70656e222c227473223a313739343830373032343936343333362c226163746f72223a2273797374656d222c226b696e64223a226c6f672e6f70656e2f31222c22706172656e7473223a5b5d2c226661637473223a7b2270726f6772616d223a22666f72756d642f302e312e30222c226c6566745f6f726967696e223a22666f72756d2e6c6f63616c2f6666643766306562222c226c6566745f73697a65223a31342c226c6566745f726f6f74223a2239616530643239383961356435353462316261306633623061646636373863373561623861663330636336616137666666363530363039386136636439343236227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 6, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a226c6f67222c22737472616e64223a226d61696e222c226e223a312c2270726576223a2235346333343138383730666162323734663466373332656332366435343564313033393065666634613036313139333065333735613134323433376465383338222c2273746570223a226c6f672f6b6579222c227473223a313739343830373032343936373837372c226163746f72223a2273797374656d222c226b696e64223a226b65792e6164642f31222c22706172656e7473223a5b5d2c226661637473223a7b22766b6579223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d322b66393339656131312b416141307137593244485753716a796731687150654e66686c656e59364a5944684d30383945746176334e6f227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 7, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d643030632d376163332d626130352d633530386632323930306430222c22737472616e64223a226d61696e222c226e223a302c2270726576223a22222c2273746570223a2272756e2f6f70656e222c227473223a313739343830373032353637373638352c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e6f70656e2f31222c22706172656e7473223a5b5d2c226661637473223a7b2261667465725f73697a65223a322c2261667465725f726f6f74223a2233616636393162643136346438306536656563613331326638663939303738373634653266386332333032333935653832376262343833643631333136303361227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 7, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d643030632d376163332d626130352d633530386632323930306430222c22737472616e64223a226d61696e222c226e223a312c2270726576223a2237326530313739623736363032346361373763383664353334663965383230343339353931663665343032363636653230613533356561303766303833336164222c2273746570223a226e6f7465222c227473223a313739343830373032353638323735342c226163746f72223a226f70657261746f72222c226b696e64223a226e6f74652f31222c22706172656e7473223a5b2237326530313739623736363032346361373763383664353334663965383230343339353931663665343032363636653230613533356561303766303833336164225d2c226661637473223a7b7d2c22626f64696573223a7b2274657874223a7b2268223a2266326363313439613862383335653330613635333864383832363337363732356363383363306661313530663933353164393032366665363431666637343266222c2273697a65223a33382c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 7, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d643030632d376163332d626130352d633530386632323930306430222c22737472616e64223a226d61696e222c226e223a322c2270726576223a2265333561336634353766663939396361636661613639666562336166343235643538356533613435323063666361393039623964393334646238633661633465222c2273746570223a2272756e2f636c6f7365222c227473223a313739343830373032353638383037312c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e636c6f73652f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b222c22737472616e6473223a307d2c22626f64696573223a7b22737472616e6473223a7b2268223a2265346139303466316333346430323361303834623536396265313965386362323063623466356234653332613331343732343862343963626434653565623732222c2273697a65223a322c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 8, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d643333662d373565622d613634342d303066363264386364653839222c22737472616e64223a226d61696e222c226e223a302c2270726576223a22222c2273746570223a2272756e2f6f70656e222c227473223a313739343830373032363439373531342c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e6f70656e2f31222c22706172656e7473223a5b5d2c226661637473223a7b2261667465725f73697a65223a352c2261667465725f726f6f74223a2238623562376236306233383737373637383965653264306466666534303935646664386535333862663564666666623039303934363035346634633334343632227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 8, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d643333662d373565622d613634342d303066363264386364653839222c22737472616e64223a226d61696e222c226e223a312c2270726576223a2264623035626563613638323163616165636631646330663330613962346135303461666435383231653034646435306337303964666537346639376539343666222c2273746570223a226e6f7465222c227473223a313739343830373032363530313837372c226163746f72223a226f70657261746f72222c226b696e64223a226e6f74652f31222c22706172656e7473223a5b2264623035626563613638323163616165636631646330663330613962346135303461666435383231653034646435306337303964666537346639376539343666225d2c226661637473223a7b7d2c22626f64696573223a7b2274657874223a7b2268223a2266663136353634383364653362393165653261316663393765353538623863386663623833663435663136393235656165643832313839626334336435633463222c2273697a65223a34322c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 8, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d643333662d373565622d613634342d303066363264386364653839222c22737472616e64223a226d61696e222c226e223a322c2270726576223a2233303134666532633038613138643364666532643764636664396463396264376331323962386665336539633838663231326530356330343633633930313762222c2273746570223a2272756e2f636c6f7365222c227473223a313739343830373032363530363139352c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e636c6f73652f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b222c22737472616e6473223a307d2c22626f64696573223a7b22737472616e6473223a7b2268223a2265313234633531646365353962393839306237373538326631373336303663343637393163353366376430366639353066336466373830393836343539323263222c2273697a65223a322c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 6, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a226c6f67222c22737472616e64223a226d61696e222c226e223a322c2270726576223a2234356565663061373565626130356236373166623834663133303539663362646561656466613366636631326536353633373132376162346138626432633634222c2273746570223a227265646163742f333031346665326330386131386433646665326437646366643964633962643763313239623866653365396338386632313265303563303436336339303137622f74657874222c227473223a313739343830373032373431343331372c226163746f72223a226f70657261746f72222c226b696e64223a227265646163742f31222c22706172656e7473223a5b2233303134666532633038613138643364666532643764636664396463396264376331323962386665336539633838663231326530356330343633633930313762225d2c226661637473223a7b22656e747279223a2233303134666532633038613138643364666532643764636664396463396264376331323962386665336539633838663231326530356330343633633930313762222c22626f6479223a2274657874222c22726561736f6e223a226c6567616c227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 10, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d653236392d373634322d613432642d363065373365626162626565222c22737472616e64223a226d61696e222c226e223a302c2270726576223a22222c2273746570223a2272756e2f6f70656e222c227473223a313739343830373033303337383039322c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e6f70656e2f31222c22706172656e7473223a5b5d2c226661637473223a7b2261667465725f73697a65223a392c2261667465725f726f6f74223a2235383239303330393563336134373639666337313738356338386538393062393438326663373331363364363164623465656461363361303335653435353337227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 10, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d653236392d373634322d613432642d363065373365626162626565222c22737472616e64223a226d61696e222c226e223a312c2270726576223a2237656132356531376632303939666331383331633136353834633531616430393539363864396461303563356433343037613233623735346130396131323166222c2273746570223a226163636570746564222c227473223a313739343830373033303337383235382c226163746f72223a226f70657261746f72222c226b696e64223a2261636365707465642f31222c22706172656e7473223a5b5d2c226661637473223a7b226465707468223a337d2c22626f64696573223a7b22706f6c696379223a7b2268223a2230616632363338373363626531326530333931393561653866343235663133663664633034656432623966393364366263346130303664306330623863383035222c2273697a65223a35332c2274797065223a226170706c69636174696f6e2f6a736f6e227d2c2272657175657374223a7b2268223a2236393931666162643235636263616661313737653433366166643136643261313639623732376565613536326432333034663538656634633333306462653863222c2273697a65223a32322c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 10, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d653236392d373634322d613432642d363065373365626162626565222c22737472616e64223a226d61696e222c226e223a322c2270726576223a2263343231633832656633303062316461623037323739373263383366343039663635623636336566336561626362363538633338356638346630663631316461222c2273746570223a22706c616e222c227473223a313739343830373033303337383738342c226163746f72223a226f70657261746f72222c226b696e64223a22706c616e2f31222c22706172656e7473223a5b5d2c226661637473223a7b227461736b73223a317d2c22626f64696573223a7b22706c616e223a7b2268223a2232643633333762376661613939663462346233643934396536626531343331386335316633316238326333663565393762643535333362396136646464356638222c2273697a65223a36362c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 11, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d653236392d373634322d613432642d363065373365626162626565222c22737472616e64223a227461736b2f616e73776572222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373033313537353236392c226163746f72223a22656e67696e65222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2266376335643930376134623664666131356331383761663236363339613364653662356363653238333465353130383736363337626333356263653130623861225d2c226661637473223a7b226167656e74223a22222c226d6f64656c223a227763222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2235613935323865336461363663663238363033333633313161343538306638626130613535376435626462376530393336663866653264343662316266306661222c2273697a65223a32322c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 11, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d653236392d373634322d613432642d363065373365626162626565222c22737472616e64223a227461736b2f616e73776572222c226e223a312c2270726576223a2237623737383633643861613138353537333465373362336363646430336534386336346465623865326531633737316337366231666137346365636539323562222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373033313538373139312c226163746f72223a22656e67696e65222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b222c226d696c6c697365636f6e6473223a337d2c22626f64696573223a7b226f7574707574223a7b2268223a2236643333363037656231363831396661363562356532613634383464343835303066656130383665643330663036386138303931333334636666306264316532222c2273697a65223a322c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 11, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d653236392d373634322d613432642d363065373365626162626565222c22737472616e64223a227461736b2f616e73776572222c226e223a322c2270726576223a2261396162613639353636353631353630306332353465393631306338373133333764306238643663313963333830376531383639366463303833613765353965222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373033313538373239322c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a226f7574636f6d65222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 12, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d653236392d373634322d613432642d363065373365626162626565222c22737472616e64223a22636f6e74726f6c222c226e223a302c2270726576223a22222c2273746570223a22636c6f7365222c227473223a313739343830373033313630373438362c226163746f72223a22656e67696e65222c226b696e64223a22636f6e74726f6c2e636c6f73652f31222c22706172656e7473223a5b2263343231633832656633303062316461623037323739373263383366343039663635623636336566336561626362363538633338356638346630663631316461225d2c226661637473223a7b7d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 10, 3, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d653236392d373634322d613432642d363065373365626162626565222c22737472616e64223a226d61696e222c226e223a332c2270726576223a2266376335643930376134623664666131356331383761663236363339613364653662356363653238333465353130383736363337626333356263653130623861222c2273746570223a22616e73776572222c227473223a313739343830373033313631323031382c226163746f72223a22656e67696e65222c226b696e64223a22616e737765722f31222c22706172656e7473223a5b2233613964303331616135393766623636653739626233353837323730306433646130363930363161636138316636333736386137313932633361383436303932225d2c226661637473223a7b226f7574636f6d65223a226f6b222c227061727473223a317d2c22626f64696573223a7b22616e73776572223a7b2268223a2236396238353830646537353663353864336230613762666565663133373965626231393665643239346666643161626134653064323061626361383938396362222c2273697a65223a322c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 10, 4, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d653236392d373634322d613432642d363065373365626162626565222c22737472616e64223a226d61696e222c226e223a342c2270726576223a2239346132343334376333356362316133323032353333633937663966663632626162393632373337616236306132303030343665666538363134633833306666222c2273746570223a2272756e2f636c6f7365222c227473223a313739343830373033313632303733392c226163746f72223a22656e67696e65222c226b696e64223a2272756e2e636c6f73652f31222c22706172656e7473223a5b2234623039343631393437363437656331306236383735663165623436656161323230383636336631366430626132396362626139343730353161646237663730222c2233613964303331616135393766623636653739626233353837323730306433646130363930363161636138316636333736386137313932633361383436303932225d2c226661637473223a7b226f7574636f6d65223a226f6b222c22737472616e6473223a327d2c22626f64696573223a7b22737472616e6473223a7b2268223a2232343963636134636266363739386535363337353462623761636135326535343637666465623834353763666432323639643037623532326334656162393064222c2273697a65223a3136372c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 13, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a226d61696e222c226e223a302c2270726576223a22222c2273746570223a2272756e2f6f70656e222c227473223a313739343830373033333239303536392c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e6f70656e2f31222c22706172656e7473223a5b5d2c226661637473223a7b2261667465725f73697a65223a31382c2261667465725f726f6f74223a2239326263623761326364623663393237356237613238326331386666393239653030653733323238623330303530636435633434383135386265393962333962227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 13, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a226d61696e222c226e223a312c2270726576223a2230303066616130613362653631616538666563313736663764313831646437333865303063663462623135363265396536343362313335663564633736653531222c2273746570223a226163636570746564222c227473223a313739343830373033333239303733312c226163746f72223a226f70657261746f72222c226b696e64223a2261636365707465642f31222c22706172656e7473223a5b5d2c226661637473223a7b226465707468223a337d2c22626f64696573223a7b22706f6c696379223a7b2268223a2235646466386362366634663432396464643837376462363432353430316361383766636236666464356361366165326332303632346431316533316437663833222c2273697a65223a3837382c2274797065223a226170706c69636174696f6e2f6a736f6e227d2c2272657175657374223a7b2268223a2265626338616234323134636362643935623039353737363661373533346131353434616135373539656434623963656564663466313865333536643562353461222c2273697a65223a33352c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 13, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a226d61696e222c226e223a322c2270726576223a2238343363353338653235336363363339613639373038623132356666373361616664616532383533343764313035666166616135373636343532393564323835222c2273746570223a22706c616e222c227473223a313739343830373033333239303834392c226163746f72223a226f70657261746f72222c226b696e64223a22706c616e2f31222c22706172656e7473223a5b5d2c226661637473223a7b227461736b73223a337d2c22626f64696573223a7b22706c616e223a7b2268223a2264303532643439616333663066386361343834666330623363373430303537356535366339313336653032323038363161393539663939356135353139323733222c2273697a65223a3333392c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 14, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a227461736b2f6661637473222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373033343731393236342c226163746f72223a22656e67696e65222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2266373062643638613036333864646163626466643562313966646462613161356562333635653164353162613036666632383135306337343130636637643130225d2c226661637473223a7b226167656e74223a22222c226d6f64656c223a227363726970746564222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2266636538356434353334383239396465353833653337333761616331323166346433663837623632373162626433653266633738386137343338306631376435222c2273697a65223a32382c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 14, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a227461736b2f6661637473222c226e223a312c2270726576223a2239336265313736343863386662306134336236643931666135303234336136643335663665636162346233666661356363383738646139323934343762376439222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373033343733393730362c226163746f72223a22656e67696e65222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b227d2c22626f64696573223a7b226f7574707574223a7b2268223a2235326139383137653130306661383738363839393165653462653866346333386665323564353437376563313666393536323533393866663630636362353663222c2273697a65223a32372c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 14, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a227461736b2f6661637473222c226e223a322c2270726576223a2232376365666461373030373137663963336361653331633737353633656635633232656661393935666131313362396162336666363663333633653335623264222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373033343733393833312c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a226f7574636f6d65222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 15, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a227461736b2f636f756e74222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373033343837303737362c226163746f72223a22636f756e746572222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2266373062643638613036333864646163626466643562313966646462613161356562333635653164353162613036666632383135306337343130636637643130222c2235383131316635626461633732356164666663333739623839316130383766636539633035633366666139303464666265666263336462326339663036366631225d2c226661637473223a7b226167656e74223a22636f756e746572222c226d6f64656c223a227763222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2237333661663735336132653865313633376231633435653633306235643531363662356337316530313762623435346436313761333232646638323132326433222c2273697a65223a3333312c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 15, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a227461736b2f636f756e74222c226e223a312c2270726576223a2239343236303261356633303061386237666161366530383136656634376133366338323665653834626462623262323137393662316535366131373363656137222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373033343837393232322c226163746f72223a22636f756e746572222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b222c226d696c6c697365636f6e6473223a327d2c22626f64696573223a7b226f7574707574223a7b2268223a2236383734666136363334306538636336613739643339326338333266306334396665656161323630313335343637633739363536353434373835396535613530222c2273697a65223a332c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 15, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a227461736b2f636f756e74222c226e223a322c2270726576223a2237663034643666326232346334633932666338363038653635613431313139396662646232316333363066623139333537363361623938346239313933363865222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373033343837393333342c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a226d617463686573222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 16, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a22676174652f7461736b2f7265706f7274222c226e223a302c2270726576223a22222c2273746570223a226f70656e222c227473223a313739343830373033343938383033302c226163746f72223a22656e67696e65222c226b696e64223a22676174652e6f70656e2f31222c22706172656e7473223a5b2266373062643638613036333864646163626466643562313966646462613161356562333635653164353162613036666632383135306337343130636637643130225d2c226661637473223a7b227375626a656374223a227461736b2f7265706f7274222c226d696c6c697365636f6e6473223a38363430303030302c2264656661756c74223a2272656a656374227d2c22626f64696573223a7b2273686f776e223a7b2268223a2232323361346561653366313339643861303731373834643837363736363666646335636561616635353730306137653238383031666433666661326165326530222c2273697a65223a31372c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 16, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a22676174652f7461736b2f7265706f7274222c226e223a312c2270726576223a2233373864323933663338333233616439303461376331646235333938333137313631363866373639373939343431616333313334626665303366636235386430222c2273746570223a226465636973696f6e222c227473223a313739343830373033363432303430312c226163746f72223a226f70657261746f72222c226b696e64223a22676174652e6465636973696f6e2f31222c22706172656e7473223a5b5d2c226661637473223a7b22616e73776572223a22617070726f7665222c22646967657374223a2232323361346561653366313339643861303731373834643837363736363666646335636561616635353730306137653238383031666433666661326165326530222c226279223a22706572736f6e227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 18, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a227461736b2f7265706f7274222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373033383333313331382c226163746f72223a22777269746572222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2231376664626634313335373864323264363633623232303439343065656464383036316435376430633734663331353936336161306231306234393661353337222c2235383131316635626461633732356164666663333739623839316130383766636539633035633366666139303464666265666263336462326339663036366631222c2234343434643266666633393565633166363931353330613336663336356532643532653637383430646335363563633232633731333930313137323936623663225d2c226661637473223a7b226167656e74223a22777269746572222c226d6f64656c223a227363726970746564222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2230626438656464613934393339633061636562383938636431386131643137393365373635343339343161393261613431363065336434353330643432643830222c2273697a65223a3331312c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 18, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a227461736b2f7265706f7274222c226e223a312c2270726576223a2262623565356530393830363266326635373965356233623738363037633032646634363362613262636132346633303537353766386636373131643432356132222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373033383334393132392c226163746f72223a22777269746572222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b227d2c22626f64696573223a7b226f7574707574223a7b2268223a2232616365636433636631386566316663323465643038343933316263383563353830356365316464373066333864323638343830333932623534356234363234222c2273697a65223a33372c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 18, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a227461736b2f7265706f7274222c226e223a322c2270726576223a2238613662346133623533343330303332373335343865326331613639343032353761356232363837653462333334623565656361613130393130646434646561222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373033383334393330362c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a22636f6e7461696e73222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 19, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a22636f6e74726f6c222c226e223a302c2270726576223a22222c2273746570223a22636c6f7365222c227473223a313739343830373033383337313839352c226163746f72223a22656e67696e65222c226b696e64223a22636f6e74726f6c2e636c6f73652f31222c22706172656e7473223a5b2238343363353338653235336363363339613639373038623132356666373361616664616532383533343764313035666166616135373636343532393564323835225d2c226661637473223a7b7d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 13, 3, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a226d61696e222c226e223a332c2270726576223a2266373062643638613036333864646163626466643562313966646462613161356562333635653164353162613036666632383135306337343130636637643130222c2273746570223a22616e73776572222c227473223a313739343830373033383337373031302c226163746f72223a22656e67696e65222c226b696e64223a22616e737765722f31222c22706172656e7473223a5b2232343061633339663932343361366264653463643162663835373438353134306230333636323130353363636562626632643065653035323435336336346263225d2c226661637473223a7b226f7574636f6d65223a226f6b222c227061727473223a317d2c22626f64696573223a7b22616e73776572223a7b2268223a2232326337653535323461643363313230333161613231663636616663346166383437613063353830306533326663386237313237363665336339303439663135222c2273697a65223a33372c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 13, 4, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22737472616e64223a226d61696e222c226e223a342c2270726576223a2230306532346339666430363530626635623236353830313433356164316461663463353737346664666466366439616530373933666164373964383331623833222c2273746570223a2272756e2f636c6f7365222c227473223a313739343830373033383338383439322c226163746f72223a22656e67696e65222c226b696e64223a2272756e2e636c6f73652f31222c22706172656e7473223a5b2234656236636139343730643632363830363563383164396165643139353162613233343638613865393261613431656132363061646636313338633830336633222c2231376664626634313335373864323264363633623232303439343065656464383036316435376430633734663331353936336161306231306234393661353337222c2234343434643266666633393565633166363931353330613336663336356532643532653637383430646335363563633232633731333930313137323936623663222c2235383131316635626461633732356164666663333739623839316130383766636539633035633366666139303464666265666263336462326339663036366631222c2232343061633339663932343361366264653463643162663835373438353134306230333636323130353363636562626632643065653035323435336336346263225d2c226661637473223a7b226f7574636f6d65223a226f6b222c22737472616e6473223a357d2c22626f64696573223a7b22737472616e6473223a7b2268223a2231663730343931636230383132363264323038376364366664353436636634353934646166396631653134626235643733343963663530303034373266613562222c2273697a65223a3432352c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 21, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a226d61696e222c226e223a302c2270726576223a22222c2273746570223a2272756e2f6f70656e222c227473223a313739343830373034303639353330382c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e6f70656e2f31222c22706172656e7473223a5b5d2c226661637473223a7b2261667465725f73697a65223a33352c2261667465725f726f6f74223a2230373034356532373137303134343463383261333663393239623661356434373563326663616435653737353636663031343066383939346531653066373966227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 21, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a226d61696e222c226e223a312c2270726576223a2261653063643932616133303833396439333361323533336132366163373366323337363335316265306264333334613863313031613836303331633634323638222c2273746570223a226163636570746564222c227473223a313739343830373034303639353532302c226163746f72223a226f70657261746f72222c226b696e64223a2261636365707465642f31222c22706172656e7473223a5b5d2c226661637473223a7b226465707468223a337d2c22626f64696573223a7b22706f6c696379223a7b2268223a2262623435386664393637373638356339383765386661313164353062316466656538643264383335323732616630643038653038333663396566636633383963222c2273697a65223a3935312c2274797065223a226170706c69636174696f6e2f6a736f6e227d2c2272657175657374223a7b2268223a2262376238306636633465386534663231626634366133396262323032313234346262393337363365313035363063393566613865323937396564346532333262222c2273697a65223a32312c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 21, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a226d61696e222c226e223a322c2270726576223a2263643265376239666662653131623465396566373934336461653066376233386235663430336463346363313462303963303838333732653662373330383432222c2273746570223a22636f756e63696c222c227473223a313739343830373034303930383138352c226163746f72223a22656e67696e65222c226b696e64223a22636f756e63696c2f31222c22706172656e7473223a5b5d2c226661637473223a7b227365617473223a332c226d6f64656c73223a332c22626173656c696e65223a332c22726f756e6473223a327d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 22, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e302e33222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373034303931393330312c226163746f72223a226365646172222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2233326464626263313535366135646632633961343964313133373065653665643439303838336239663031343662356138633161646134373634353262636163225d2c226661637473223a7b226167656e74223a226365646172222c226d6f64656c223a227363726970746564222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2237376364376261313731666533306630376530336365303637326461656435346638333062383331346338366432643866633936656563363735396332653265222c2273697a65223a3739302c2274797065223a22746578742f706c61696e227d2c22736368656d61223a7b2268223a2237303532326333363134323862333231666439316264646238396233366635303461383163363033643030306636376665376139623632393464336536343233222c2273697a65223a3538342c2274797065223a226170706c69636174696f6e2f736368656d612b6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 23, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e302e31222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373034303932303439372c226163746f72223a22617368222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2233326464626263313535366135646632633961343964313133373065653665643439303838336239663031343662356138633161646134373634353262636163225d2c226661637473223a7b226167656e74223a22617368222c226d6f64656c223a227363726970746564222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2235363162306633363832643666643465623336613238663963323039336363366263663463366366393261346438313036626136343131313662626435393332222c2273697a65223a3739302c2274797065223a22746578742f706c61696e227d2c22736368656d61223a7b2268223a2266646639383035373635613338656630306138363839646231366361396366386161303666366664333061356565623664306365613366303335616138646435222c2273697a65223a3538342c2274797065223a226170706c69636174696f6e2f736368656d612b6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 24, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e302e32222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373034303932303836332c226163746f72223a226269726368222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2233326464626263313535366135646632633961343964313133373065653665643439303838336239663031343662356138633161646134373634353262636163225d2c226661637473223a7b226167656e74223a226269726368222c226d6f64656c223a227363726970746564222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2234363034333439306661613231333630386364363864313035633033323864626231623431623562333166333933656665306530383133323939346231343361222c2273697a65223a3739302c2274797065223a22746578742f706c61696e227d2c22736368656d61223a7b2268223a2262326364346137666235333163346365376533306133626536633236623963643336303166326566353734303563663961653739303834663432643432653036222c2273697a65223a3538342c2274797065223a226170706c69636174696f6e2f736368656d612b6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 22, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e302e33222c226e223a312c2270726576223a2266643561333234353030623862663230613664336136303831666666343763376637313236663035373666613234633166313136356466366130643863633439222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373034313032353638382c226163746f72223a226365646172222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b227d2c22626f64696573223a7b226f7574707574223a7b2268223a2265323661373631333432646165666530336236646635316232656666313263363463616265316337323739616464666366633265306164346537346538396334222c2273697a65223a33352c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 22, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e302e33222c226e223a322c2270726576223a2266336163343637346364633362383134653634343863313165363331316534393833396231653631333237383461633930336636353739346436326137643763222c2273746570223a2262616c6c6f74222c227473223a313739343830373034313032353835322c226163746f72223a226365646172222c226b696e64223a2262616c6c6f742f31222c22706172656e7473223a5b5d2c226661637473223a7b2273656174223a332c22726f756e64223a307d2c22626f64696573223a7b2262616c6c6f74223a7b2268223a2264333737653565653135343531666638363837353532313062326534343262303664633965653039626333343530663665353164343333396563643533306531222c2273697a65223a33322c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 22, 3, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e302e33222c226e223a332c2270726576223a2239616630656662366133306334306433356161363932316432386630343632316630633936656165656366386530663431656634393162333334616639356264222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373034313032353932332c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a22666f726d222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 23, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e302e31222c226e223a312c2270726576223a2264356632353864356164636265393737353530376363633534666332636535376434653437643762366630313866643166616162326538383136326133613037222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373034313033363135362c226163746f72223a22617368222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b227d2c22626f64696573223a7b226f7574707574223a7b2268223a2234653539666265303438373531333938303339613465393936396263643463326566343937343963366539313238626538326337643435393932616536646462222c2273697a65223a33352c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 23, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e302e31222c226e223a322c2270726576223a2266393361643362316439363732633432306261366365666166356238326132666661646666613339383738623738336231363636303761383433333733363636222c2273746570223a2262616c6c6f74222c227473223a313739343830373034313033363236342c226163746f72223a22617368222c226b696e64223a2262616c6c6f742f31222c22706172656e7473223a5b5d2c226661637473223a7b2273656174223a312c22726f756e64223a307d2c22626f64696573223a7b2262616c6c6f74223a7b2268223a2232393839326534323337633761326162353135393263353562353934306330353232366333303966376638313534643236346236366133666135316238303730222c2273697a65223a33322c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 23, 3, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e302e31222c226e223a332c2270726576223a2265663237653862623237346663373133373338646335386164313433343337663431663932636433383338376632356662363338626265313537656638353932222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373034313033363332372c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a22666f726d222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 24, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e302e32222c226e223a312c2270726576223a2234653263363366393534326535366433323433656564646235663637383264383961363962636338653936336361303231313735313739613534646437343230222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373034313033363435392c226163746f72223a226269726368222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b227d2c22626f64696573223a7b226f7574707574223a7b2268223a2235623065616331393438626464633233346563373930306432633733616333323533636462363833343236326438326439613430323530656639613264306534222c2273697a65223a3130302c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 24, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e302e32222c226e223a322c2270726576223a2234636464303136663039663239363037333465623735323636623933633631373864343634616534346662303931613936623437323033653237316337653864222c2273746570223a2262616c6c6f74222c227473223a313739343830373034313033363532392c226163746f72223a226269726368222c226b696e64223a2262616c6c6f742f31222c22706172656e7473223a5b5d2c226661637473223a7b2273656174223a322c22726f756e64223a307d2c22626f64696573223a7b2262616c6c6f74223a7b2268223a2235323664383833643835346161316333376463306539353063363933333238316237366533383936333232316231323264633437616162393633396436323637222c2273697a65223a39322c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 24, 3, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e302e32222c226e223a332c2270726576223a2233303461383964646366303134383563356633653365393437343237633836633161396261623561363266656132333763653739653965346139353861636536222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373034313033363537382c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a22666f726d222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 26, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e312e31222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373034313038313734362c226163746f72223a22617368222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2266643935333935626165396163623664306665386330666432646131626364653164376135333130623962363164336430343633396337616139373963613637225d2c226661637473223a7b226167656e74223a22617368222c226d6f64656c223a227363726970746564222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2261393865353635396366613237633737363632626563633564323133396566323264313133663663343835353736663438326239383664623633613333326437222c2273697a65223a313539382c2274797065223a22746578742f706c61696e227d2c22736368656d61223a7b2268223a2238386261336533326666633765373231333733373235653035636133656666336661613966633966386137653761646462623033653636613638353761356330222c2273697a65223a313232362c2274797065223a226170706c69636174696f6e2f736368656d612b6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 27, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e312e32222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373034313038323935372c226163746f72223a226269726368222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2266643935333935626165396163623664306665386330666432646131626364653164376135333130623962363164336430343633396337616139373963613637225d2c226661637473223a7b226167656e74223a226269726368222c226d6f64656c223a227363726970746564222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2232643138303638656233626232353564656137343863633436636235373530386437313635313630346632336438646130373239373662353766383461356465222c2273697a65223a313635392c2274797065223a22746578742f706c61696e227d2c22736368656d61223a7b2268223a2264353563313439623431343532356430373166376335666139323365366535343661343939663161363761303166303965623564616237316433666165656435222c2273697a65223a313232362c2274797065223a226170706c69636174696f6e2f736368656d612b6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 21, 5, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a226d61696e222c226e223a352c2270726576223a2266643935333935626165396163623664306665386330666432646131626364653164376135333130623962363164336430343633396337616139373963613637222c2273746570223a2272657665616c2f31222c227473223a313739343830373034313131373532332c226163746f72223a22656e67696e65222c226b696e64223a2272657665616c2f31222c22706172656e7473223a5b2237316131663437346561343562623132376334316161616632653737353062343566326636326666386634656465613836303639653666373936323162633865222c2231353033396535646133323861353235616162353061373464383531613932636235333034336238356465643361613332636262653662663465393965343233222c2239396461313362376339396233333963396535636536306132643932333961313433316635663337313937343231626638376363363966323636613737303666225d2c226661637473223a7b22726f756e64223a312c2262616c6c6f7473223a332c2273656564223a2231343761316163663131646164303835336336333763656461663636396339633561393962633362363037653933656462633431663937306466616562336633227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 21, 3, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a226d61696e222c226e223a332c2270726576223a2233326464626263313535366135646632633961343964313133373065653665643439303838336239663031343662356138633161646134373634353262636163222c2273746570223a22626173656c696e65222c227473223a313739343830373034313036333433312c226163746f72223a22656e67696e65222c226b696e64223a22626173656c696e652f31222c22706172656e7473223a5b2233613331666464623565303132666630623838626131373966313735326335343939376138643036643037373737316330353432333634616336626330663566222c2262363134333139623837383136343839396266653130396231313031316531303330373839316562613264363262633836353437363337353064326365303564222c2230663334346561383665393862626338613261343632323433386236316539373362376663626665623736623962363266323939323863653834656266313436225d2c226661637473223a7b22616e7377657273223a332c2261677265656d656e74223a3636362c2270617373616765223a2264656c69626572617465222c22757364223a302c22746f6b656e73223a307d2c22626f64696573223a7b22616e73776572223a7b2268223a2237636332316235613930316562346133666666326439646139366464376530623863303165333037306631353334326533383834396266303865383862636639222c2273697a65223a332c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 25, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e312e33222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373034313037373830332c226163746f72223a226365646172222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2266643935333935626165396163623664306665386330666432646131626364653164376135333130623962363164336430343633396337616139373963613637225d2c226661637473223a7b226167656e74223a226365646172222c226d6f64656c223a227363726970746564222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2263396634646430336665633265616432306164356631666464316336393733363932383565636538376566353935636430396436373032306264313337653237222c2273697a65223a313539382c2274797065223a22746578742f706c61696e227d2c22736368656d61223a7b2268223a2231393532343936343863396430326262353962363638376632393130663438626636336238376365393834623233313630343561626264653135373563353739222c2273697a65223a313232362c2274797065223a226170706c69636174696f6e2f736368656d612b6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 28, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a22636f6e74726f6c222c226e223a302c2270726576223a22222c2273746570223a22636c6f7365222c227473223a313739343830373034313135303931352c226163746f72223a22656e67696e65222c226b696e64223a22636f6e74726f6c2e636c6f73652f31222c22706172656e7473223a5b2263643265376239666662653131623465396566373934336461653066376233386235663430336463346363313462303963303838333732653662373330383432225d2c226661637473223a7b7d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 21, 4, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a226d61696e222c226e223a342c2270726576223a2232363933353064643535373261643466666461323266386339623565306330393236653762663065663465313737363866613035626665376431613566333334222c2273746570223a2272657665616c2f30222c227473223a313739343830373034313036363030362c226163746f72223a22656e67696e65222c226b696e64223a2272657665616c2f31222c22706172656e7473223a5b2233613331666464623565303132666630623838626131373966313735326335343939376138643036643037373737316330353432333634616336626330663566222c2262363134333139623837383136343839396266653130396231313031316531303330373839316562613264363262633836353437363337353064326365303564222c2230663334346561383665393862626338613261343632323433386236316539373362376663626665623736623962363266323939323863653834656266313436225d2c226661637473223a7b22726f756e64223a302c2262616c6c6f7473223a332c2273656564223a2266336534303534663866386462356639633930626664633937333230383664666137356130353463633934656239383533383735396361343932313131383137227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 25, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e312e33222c226e223a312c2270726576223a2230333537633762613033623736613439613264346235323962663262353265376465363665386332636561376464643066346566376461336363343438656665222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373034313038393030382c226163746f72223a226365646172222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b227d2c22626f64696573223a7b226f7574707574223a7b2268223a2235336132353562393837373530363530363865663639323030393135343031653236663262306538666637623138396138626433353463313962666262623136222c2273697a65223a33342c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 25, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e312e33222c226e223a322c2270726576223a2230376236303364346138393239643131353632663037663532633437393164303235343661633362333137663765613765613831326161313838356134373230222c2273746570223a2262616c6c6f74222c227473223a313739343830373034313038393039302c226163746f72223a226365646172222c226b696e64223a2262616c6c6f742f31222c22706172656e7473223a5b5d2c226661637473223a7b2273656174223a332c22726f756e64223a317d2c22626f64696573223a7b2262616c6c6f74223a7b2268223a2238306137346333613633613138613737363130636235626333353664633165633962353361636363363561666164376439386636333764663861353564366132222c2273697a65223a33312c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 25, 3, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e312e33222c226e223a332c2270726576223a2238653536343461316530626635613465303665643864353238333630643137393732346564386331306237613837643764656139356131653432616132353864222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373034313038393133352c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a22666f726d222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 21, 8, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a226d61696e222c226e223a382c2270726576223a2238303032643331343865333633643565396562666431333438363330643139373366383730613533346231636239373436353864356661353865326231323338222c2273746570223a2272756e2f636c6f7365222c227473223a313739343830373034313136393934352c226163746f72223a22656e67696e65222c226b696e64223a2272756e2e636c6f73652f31222c22706172656e7473223a5b2265383137613932376133336631363264303534396232343265623233303962643135636434376136363135623039663338353563626263326161393339336533222c2233613331666464623565303132666630623838626131373966313735326335343939376138643036643037373737316330353432333634616336626330663566222c2262363134333139623837383136343839396266653130396231313031316531303330373839316562613264363262633836353437363337353064326365303564222c2230663334346561383665393862626338613261343632323433386236316539373362376663626665623736623962363266323939323863653834656266313436222c2237316131663437346561343562623132376334316161616632653737353062343566326636326666386634656465613836303639653666373936323162633865222c2231353033396535646133323861353235616162353061373464383531613932636235333034336238356465643361613332636262653662663465393965343233222c2239396461313362376339396233333963396535636536306132643932333961313433316635663337313937343231626638376363363966323636613737303666225d2c226661637473223a7b226f7574636f6d65223a226f6b222c22737472616e6473223a377d2c22626f64696573223a7b22737472616e6473223a7b2268223a2239343334643531396434616230316234613763643336633433626332636538306139636566383764396638343564323331303731646139346665336134383966222c2273697a65223a3631362c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 26, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e312e31222c226e223a312c2270726576223a2262303536616335626631366336313436616633633065666138343133666239636536373064656531386436316361343961376534303633643566373465646332222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373034313039363237302c226163746f72223a22617368222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b227d2c22626f64696573223a7b226f7574707574223a7b2268223a2266613661656631643035376333323930303163373533646539643630653637303934306132373866383933653431393063653162666538376337363339363732222c2273697a65223a35332c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 26, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e312e31222c226e223a322c2270726576223a2236646161616139373266353036356162633739626435653039396130303333636539343835396563623437363432636163373333653635323834363262636534222c2273746570223a2262616c6c6f74222c227473223a313739343830373034313039363336302c226163746f72223a22617368222c226b696e64223a2262616c6c6f742f31222c22706172656e7473223a5b5d2c226661637473223a7b2273656174223a312c22726f756e64223a317d2c22626f64696573223a7b2262616c6c6f74223a7b2268223a2261633631303664346232363463316534623163616162363861666161666431303339326335343939633165323765333536336465373133396565663162396237222c2273697a65223a34382c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 26, 3, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e312e31222c226e223a332c2270726576223a2265383733376131633933643335326637316535383166633963313561383030373633653230663862356339616262373931343233623239373338656265306134222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373034313039363430382c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a22666f726d222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 27, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e312e32222c226e223a312c2270726576223a2234616631363035386664323536636237363335643130376531373434653264656134633763626135666361613039626561313966323963333264336166373635222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373034313039363439372c226163746f72223a226269726368222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b227d2c22626f64696573223a7b226f7574707574223a7b2268223a2263613538643537316664373931373332316531393834316334326362316539643766383433363564303230643535346462383835346130373935613431663438222c2273697a65223a33342c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 27, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e312e32222c226e223a322c2270726576223a2239663066303036643465326433383333373432386361646435303434616437396461343739376334643264633730366430656133303730646262333961316131222c2273746570223a2262616c6c6f74222c227473223a313739343830373034313039363534342c226163746f72223a226269726368222c226b696e64223a2262616c6c6f742f31222c22706172656e7473223a5b5d2c226661637473223a7b2273656174223a322c22726f756e64223a317d2c22626f64696573223a7b2262616c6c6f74223a7b2268223a2238366333613439663739623939386365326263313232323139353963373764653365656630313533306435353537316432633436613337373863376362353931222c2273697a65223a33312c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 27, 3, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a227475726e2f62616c6c6f742e312e32222c226e223a332c2270726576223a2263653063656232373833313934626334383266633738363061326362366237643939636634636335626163636466353530306435616236666532623664303061222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373034313039363538312c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a22666f726d222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 21, 6, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a226d61696e222c226e223a362c2270726576223a2230383064343661353131653233643764316338613936313038373261336437616230363161626334656334303530623365366338646561646334313534373661222c2273746570223a22636f756e63696c2e636c6f7365222c227473223a313739343830373034313132313636302c226163746f72223a22656e67696e65222c226b696e64223a22636f756e63696c2e636c6f73652f31222c22706172656e7473223a5b2237316131663437346561343562623132376334316161616632653737353062343566326636326666386634656465613836303639653666373936323162633865222c2231353033396535646133323861353235616162353061373464383531613932636235333034336238356465643361613332636262653662663465393965343233222c2239396461313362376339396233333963396535636536306132643932333961313433316635663337313937343231626638376363363966323636613737303666225d2c226661637473223a7b22656e64223a22657868617573746564222c2267726f756e64223a22766f7465222c226163636f7264223a226d616a6f72697479222c22726f756e6473223a312c2262616c6c6f7473223a362c226368616e676564223a322c22636f6e666f726d6564223a312c22626c6f636b657273223a302c22757364223a302c22746f6b656e73223a307d2c22626f64696573223a7b227265706f7274223a7b2268223a2234613133633361326366623935303561333832623264336264616435616539333734333636393637653637313962663435393162333433363238636262666661222c2273697a65223a3933342c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 21, 7, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d306162302d373038322d393336642d343664616662613839623561222c22737472616e64223a226d61696e222c226e223a372c2270726576223a2264383137646665393261346236353762616438633262633363613832393166393330653436323666313464656233383633613432333936383863383639326233222c2273746570223a22616e73776572222c227473223a313739343830373034313136313034332c226163746f72223a22656e67696e65222c226b696e64223a22616e737765722f31222c22706172656e7473223a5b2237316131663437346561343562623132376334316161616632653737353062343566326636326666386634656465613836303639653666373936323162633865222c2231353033396535646133323861353235616162353061373464383531613932636235333034336238356465643361613332636262653662663465393965343233222c2239396461313362376339396233333963396535636536306132643932333961313433316635663337313937343231626638376363363966323636613737303666225d2c226661637473223a7b226f7574636f6d65223a226f6b222c227061727473223a337d2c22626f64696573223a7b22616e73776572223a7b2268223a2265303439366339316262613761656464643561613938666465663038663362366663353164346432326333373937306431383462623734326666636435333931222c2273697a65223a322c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 29, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a226c6f67222c22737472616e64223a22616363657373222c226e223a302c2270726576223a22222c2273746570223a226772616e742f393138663866643832326436222c227473223a313739343830373034323632363530332c226163746f72223a226f70657261746f72222c226b696e64223a226163636573732e6772616e742f31222c22706172656e7473223a5b2235346333343138383730666162323734663466373332656332366435343564313033393065666634613036313139333065333735613134323433376465383338225d2c226661637473223a7b226b6579223a22393138663866643832326436222c226e616d65223a2261756469746f72222c2273636f706573223a5b226175646974222c2272656164225d2c22646967657374223a2266363031646431326439633233653462623033336538316661396664653262353066646563386164663164656638623531333664363333666235393135366130227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 29, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a226c6f67222c22737472616e64223a22616363657373222c226e223a312c2270726576223a2263363466316330396334633831616333386132323961316566383233336534343039333135323465306363346334333865656533663763636235333662353033222c2273746570223a226772616e742f333434643735663564623733222c227473223a313739343830373034333339353935372c226163746f72223a226f70657261746f72222c226b696e64223a226163636573732e6772616e742f31222c22706172656e7473223a5b2235346333343138383730666162323734663466373332656332366435343564313033393065666634613036313139333065333735613134323433376465383338225d2c226661637473223a7b226b6579223a22333434643735663564623733222c226e616d65223a22666f726d6572222c2273636f706573223a5b2261646d696e225d2c22646967657374223a2264326133656261616430336234643031616236643036393363663532396530666434373361393730316231326263373836613634653137646461313732623163227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 29, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a226c6f67222c22737472616e64223a22616363657373222c226e223a322c2270726576223a2234346364613338376438646636323131616538633035313334313331656430653563393837353362376230346138386531333765646365393436363139343563222c2273746570223a227265766f6b652f333434643735663564623733222c227473223a313739343830373034333930323134332c226163746f72223a226f70657261746f72222c226b696e64223a226163636573732e7265766f6b652f31222c22706172656e7473223a5b2235346333343138383730666162323734663466373332656332366435343564313033393065666634613036313139333065333735613134323433376465383338225d2c226661637473223a7b226b6579223a22333434643735663564623733227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 6, 3, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a226c6f67222c22737472616e64223a226d61696e222c226e223a332c2270726576223a2234366463343038636462393837643336396331313764623061626131636538393831623237393661643761626238663638333166343637323137313630316262222c2273746570223a226578706f72742f30316131653264352d656463392d373333612d383031302d3731613763343863373736662f62623431646662613162353962666331222c227473223a313739343830373034343631313932312c226163746f72223a226f70657261746f72222c226b696e64223a226578706f72742f31222c22706172656e7473223a5b5d2c226661637473223a7b2272756e223a2230316131653264352d656463392d373333612d383031302d373161376334386337373666222c22656e7472696573223a31372c2273697a65223a37327d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 33, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d316566662d376437332d396664662d326334666661633432393739222c22737472616e64223a226d61696e222c226e223a302c2270726576223a22222c2273746570223a2272756e2f6f70656e222c227473223a313739343830373034353838393239382c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e6f70656e2f31222c22706172656e7473223a5b5d2c226661637473223a7b2261667465725f73697a65223a37332c2261667465725f726f6f74223a2265663135663130616635653362653236336636376166353862366534646237383362366337653565366437373532303732373634303836663638363035366535227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 33, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d316566662d376437332d396664662d326334666661633432393739222c22737472616e64223a226d61696e222c226e223a312c2270726576223a2232636230353936656334303065336330363930623361323738356134306136346162656137303636666239393963353766366431303032623039653539323133222c2273746570223a226163636570746564222c227473223a313739343830373034353838393436322c226163746f72223a226f70657261746f72222c226b696e64223a2261636365707465642f31222c22706172656e7473223a5b5d2c226661637473223a7b226465707468223a337d2c22626f64696573223a7b22706f6c696379223a7b2268223a2235326632666233343838373031646562636135616433643739666662373239643333623032656666376531396233633564303865636536333939646530343066222c2273697a65223a3931312c2274797065223a226170706c69636174696f6e2f6a736f6e227d2c2272657175657374223a7b2268223a2236623232616138306332353462306134643130656564316165356165366636386336313932343364383931383837333339623039333537383731356565326138222c2273697a65223a33352c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 33, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d316566662d376437332d396664662d326334666661633432393739222c22737472616e64223a226d61696e222c226e223a322c2270726576223a2239653333353133306563353665306635373163616262333263333366323237643365363564623361333461626661376663323934366233333436353537386639222c2273746570223a22706c616e222c227473223a313739343830373034353838393537352c226163746f72223a226f70657261746f72222c226b696e64223a22706c616e2f31222c22706172656e7473223a5b5d2c226661637473223a7b227461736b73223a337d2c22626f64696573223a7b22706c616e223a7b2268223a2263623462313137623661626666306263623637663735343633346432623139646530613731623636633363376237316232363431373937353831313633313963222c2273697a65223a3333392c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 34, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d316566662d376437332d396664662d326334666661633432393739222c22737472616e64223a227461736b2f6661637473222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373034373832383839352c226163746f72223a22656e67696e65222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2239633063326534616362396337646430666237363836396237353063303866343230336463363064383461663139346235336633313434316563386232646464225d2c226661637473223a7b226167656e74223a22222c226d6f64656c223a227363726970746564222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2234663762346136303837653339616436366532376163623337356132663838363666326466613130333062323061653331313831343938653165643361346364222c2273697a65223a32382c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 34, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d316566662d376437332d396664662d326334666661633432393739222c22737472616e64223a227461736b2f6661637473222c226e223a312c2270726576223a2262653766316366643237663630633531303731613635633261646466633533373363313565313833323436613763646162336438353838363566393436613164222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373034373834373830362c226163746f72223a22656e67696e65222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b227d2c22626f64696573223a7b226f7574707574223a7b2268223a2230653438626661373637386430343734396137386364363331326134326361373938656637353936386661383266646531386664376438353766306637396531222c2273697a65223a32372c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 34, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d316566662d376437332d396664662d326334666661633432393739222c22737472616e64223a227461736b2f6661637473222c226e223a322c2270726576223a2231623934396233356132316136653566336264323534313562363364393139386430623466313665656666333834326333653234336136633136623631346339222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373034373834373931332c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a226f7574636f6d65222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 35, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d316566662d376437332d396664662d326334666661633432393739222c22737472616e64223a227461736b2f636f756e74222c226e223a302c2270726576223a22222c2273746570223a22617474656d70742f312f63616c6c2f31222c227473223a313739343830373034373935323835372c226163746f72223a22636f756e746572222c226b696e64223a2263616c6c2f31222c22706172656e7473223a5b2239633063326534616362396337646430666237363836396237353063303866343230336463363064383461663139346235336633313434316563386232646464222c2264653961633731623063643638343930393432366463333730646166383965373739636665313461643266366361363533396332653164616239366336653639225d2c226661637473223a7b226167656e74223a22636f756e746572222c226d6f64656c223a227763222c22617474656d7074223a312c227475726e223a312c226d696c6c697365636f6e6473223a3630303030307d2c22626f64696573223a7b2270726f6d7074223a7b2268223a2263636436356234393763336638626166626264663762323838336631636231663364653838306135363839356336653833663461623764643531326536663138222c2273697a65223a3333312c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 35, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d316566662d376437332d396664662d326334666661633432393739222c22737472616e64223a227461736b2f636f756e74222c226e223a312c2270726576223a2266663136363765363731333566396161306138616331613162623865303764303537356663666362376332316430356534313831383163346639653065653236222c2273746570223a22617474656d70742f312f63616c6c2f312f7265706c79222c227473223a313739343830373034373936323737312c226163746f72223a22636f756e746572222c226b696e64223a227265706c792f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b222c226d696c6c697365636f6e6473223a337d2c22626f64696573223a7b226f7574707574223a7b2268223a2230363037336330613164393633346333353131386462663762343934333136336135313938313464303435643834633963336132663461643062343936303237222c2273697a65223a332c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 35, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d316566662d376437332d396664662d326334666661633432393739222c22737472616e64223a227461736b2f636f756e74222c226e223a322c2270726576223a2236636639623863313634643930356534346433663333313766656433316265333531313933303565326335393533386238393865336139323832376265663230222c2273746570223a22617474656d70742f312f76657264696374222c227473223a313739343830373034373936323839352c226163746f72223a22656e67696e65222c226b696e64223a22766572646963742f31222c22706172656e7473223a5b5d2c226661637473223a7b22617474656d7074223a312c226f7574636f6d65223a226f6b222c22636865636b223a226d617463686573222c226e657874223a22616363657074227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 36, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d316566662d376437332d396664662d326334666661633432393739222c22737472616e64223a22676174652f7461736b2f7265706f7274222c226e223a302c2270726576223a22222c2273746570223a226f70656e222c227473223a313739343830373034383037373231302c226163746f72223a22656e67696e65222c226b696e64223a22676174652e6f70656e2f31222c22706172656e7473223a5b2239633063326534616362396337646430666237363836396237353063303866343230336463363064383461663139346235336633313434316563386232646464225d2c226661637473223a7b227375626a656374223a227461736b2f7265706f7274222c226d696c6c697365636f6e6473223a3331353336303030303030302c2264656661756c74223a2272656a656374227d2c22626f64696573223a7b2273686f776e223a7b2268223a2236346162343236656633633463366461396535303632383765316336313861316635366261653565336139613334633732366431623062333236316437626639222c2273697a65223a31372c2274797065223a226170706c69636174696f6e2f6f637465742d73747265616d227d7d7d');
INSERT INTO forum.entry VALUES (4, 37, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d326434322d376130332d393266642d616430643762316338323362222c22737472616e64223a226d61696e222c226e223a302c2270726576223a22222c2273746570223a2272756e2f6f70656e222c227473223a313739343830373034393533393631362c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e6f70656e2f31222c22706172656e7473223a5b5d2c226661637473223a7b2261667465725f73697a65223a38332c2261667465725f726f6f74223a2264386332323137306164613663633537613864616562393265663165653133343531313135323938663863393763656665346232623939643631613432353732227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 37, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d326434322d376130332d393266642d616430643762316338323362222c22737472616e64223a226d61696e222c226e223a312c2270726576223a2236353362383435393439623734613534303631386264633232323266323636656137643634343064353065613337663936636465306362373637633733346566222c2273746570223a226163636570746564222c227473223a313739343830373034393533393736382c226163746f72223a226f70657261746f72222c226b696e64223a2261636365707465642f31222c22706172656e7473223a5b5d2c226661637473223a7b226465707468223a337d2c22626f64696573223a7b22706f6c696379223a7b2268223a2262303737333134326562666631393733353130393166653632326532636433636563363464393230396231663035633836363364333633656632656632643134222c2273697a65223a3835342c2274797065223a226170706c69636174696f6e2f6a736f6e227d2c2272657175657374223a7b2268223a2236393830613037396638616463663931386539643336653962626135663938653565643730663133363565353866636162313039663238616466316536316132222c2273697a65223a33352c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 37, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d326434322d376130332d393266642d616430643762316338323362222c22737472616e64223a226d61696e222c226e223a322c2270726576223a2261393339653537643562616164613062663233633231333434326164383866643037353835666565393661653039383263623933666535306635646637316132222c2273746570223a22706c616e222c227473223a313739343830373034393533393837362c226163746f72223a226f70657261746f72222c226b696e64223a22706c616e2f31222c22706172656e7473223a5b5d2c226661637473223a7b227461736b73223a337d2c22626f64696573223a7b22706c616e223a7b2268223a2234303364306330333365663931343433623433386537336538363561646332333439326435633564376563366436666162306635316337373463663565313764222c2273697a65223a3333392c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');
INSERT INTO forum.entry VALUES (4, 38, 0, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d333031622d373838372d386663382d353837643632323033356135222c22737472616e64223a226d61696e222c226e223a302c2270726576223a22222c2273746570223a2272756e2f6f70656e222c227473223a313739343830373035303236383237322c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e6f70656e2f31222c22706172656e7473223a5b5d2c226661637473223a7b2261667465725f73697a65223a38362c2261667465725f726f6f74223a2266623964353736626664653662346635373665653164313861363663356534393833363931383037336438346630636666396166663131383739336537633836227d2c22626f64696573223a7b7d7d');
INSERT INTO forum.entry VALUES (4, 38, 1, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d333031622d373838372d386663382d353837643632323033356135222c22737472616e64223a226d61696e222c226e223a312c2270726576223a2264373966393830313538366564653139336163663438656632656335613965613032313938663933393964623163653339663337366361353164616233323436222c2273746570223a226e6f7465222c227473223a313739343830373035303237313032342c226163746f72223a226f70657261746f72222c226b696e64223a226e6f74652f31222c22706172656e7473223a5b2264373966393830313538366564653139336163663438656632656335613965613032313938663933393964623163653339663337366361353164616233323436225d2c226661637473223a7b7d2c22626f64696573223a7b2274657874223a7b2268223a2239656133343331363031623932353561393866306232646130303961373539306665316630643432313235663235336661316462346537663136646333303635222c2273697a65223a33382c2274797065223a22746578742f706c61696e227d7d7d');
INSERT INTO forum.entry VALUES (4, 38, 2, '\x7b2276223a22666f72756d2f656e7472792f31222c226c6f67223a22666f72756d2e6c6f63616c2f66666437663065622f65706f63682d32222c2272756e223a2230316131653264362d333031622d373838372d386663382d353837643632323033356135222c22737472616e64223a226d61696e222c226e223a322c2270726576223a2266613039616633643561386230376563643138643937616232333036333335356131653933303834366437616230366661323064323662323862333862613438222c2273746570223a2272756e2f636c6f7365222c227473223a313739343830373035303237343130392c226163746f72223a226f70657261746f72222c226b696e64223a2272756e2e636c6f73652f31222c22706172656e7473223a5b5d2c226661637473223a7b226f7574636f6d65223a226f6b222c22737472616e6473223a307d2c22626f64696573223a7b22737472616e6473223a7b2268223a2238396561326332366262663036356565613462353638333632626162643237343663383765313461626230663664326433373165363135303831386531366139222c2273697a65223a322c2274797065223a226170706c69636174696f6e2f6a736f6e227d7d7d');


--
-- Data for Name: leaf; Type: TABLE DATA; Schema: forum; Owner: -
--

INSERT INTO forum.leaf VALUES (1, -8516473451447199062, 1);
INSERT INTO forum.leaf VALUES (1, -2450249019359728584, 0);
INSERT INTO forum.leaf VALUES (1, -7226954207035419791, 4);
INSERT INTO forum.leaf VALUES (1, -322506303152805175, 2);
INSERT INTO forum.leaf VALUES (1, 8285424115072617341, 3);
INSERT INTO forum.leaf VALUES (1, -4837861463377662650, 7);
INSERT INTO forum.leaf VALUES (1, 3572449199194614065, 6);
INSERT INTO forum.leaf VALUES (1, 7812588873157212862, 5);
INSERT INTO forum.leaf VALUES (1, -9088679044518034107, 9);
INSERT INTO forum.leaf VALUES (1, 420123585237066218, 10);
INSERT INTO forum.leaf VALUES (1, 503810629452764610, 13);
INSERT INTO forum.leaf VALUES (1, 1684318211555181908, 12);
INSERT INTO forum.leaf VALUES (1, 3394089903231234416, 8);
INSERT INTO forum.leaf VALUES (1, 6123142635804469158, 11);
INSERT INTO forum.leaf VALUES (4, 5039229634713617846, 1);
INSERT INTO forum.leaf VALUES (4, 6107797573911360116, 0);
INSERT INTO forum.leaf VALUES (4, -2064267911463593526, 3);
INSERT INTO forum.leaf VALUES (4, 175865689121642968, 4);
INSERT INTO forum.leaf VALUES (4, 8277642071580353738, 2);
INSERT INTO forum.leaf VALUES (4, -2664513827980064082, 5);
INSERT INTO forum.leaf VALUES (4, 816576445663500230, 7);
INSERT INTO forum.leaf VALUES (4, 3464673478431575357, 6);
INSERT INTO forum.leaf VALUES (4, 5106027051255102774, 8);
INSERT INTO forum.leaf VALUES (4, -4313946864073264678, 10);
INSERT INTO forum.leaf VALUES (4, -592829149077905503, 11);
INSERT INTO forum.leaf VALUES (4, 9124959251944021953, 9);
INSERT INTO forum.leaf VALUES (4, -7736547234369719901, 16);
INSERT INTO forum.leaf VALUES (4, -6220695299684952736, 13);
INSERT INTO forum.leaf VALUES (4, 4223535438525627238, 14);
INSERT INTO forum.leaf VALUES (4, 4987570342344113213, 17);
INSERT INTO forum.leaf VALUES (4, 5406929902020886209, 15);
INSERT INTO forum.leaf VALUES (4, 8896727187770672471, 12);
INSERT INTO forum.leaf VALUES (4, -8918161292125223367, 19);
INSERT INTO forum.leaf VALUES (4, -645186233299313236, 20);
INSERT INTO forum.leaf VALUES (4, 4409085581990632, 18);
INSERT INTO forum.leaf VALUES (4, -7800771783936724828, 21);
INSERT INTO forum.leaf VALUES (4, 2868508906390388636, 22);
INSERT INTO forum.leaf VALUES (4, 6345887829314708909, 23);
INSERT INTO forum.leaf VALUES (4, -7771521195211446089, 24);
INSERT INTO forum.leaf VALUES (4, 4919288689740606495, 26);
INSERT INTO forum.leaf VALUES (4, 9152676680585464978, 25);
INSERT INTO forum.leaf VALUES (4, 4002900995304733401, 27);
INSERT INTO forum.leaf VALUES (4, 1728748118771028525, 28);
INSERT INTO forum.leaf VALUES (4, -8472596655307030478, 30);
INSERT INTO forum.leaf VALUES (4, -4945411945904540939, 29);
INSERT INTO forum.leaf VALUES (4, 63697594016402421, 33);
INSERT INTO forum.leaf VALUES (4, 2597103225253635773, 31);
INSERT INTO forum.leaf VALUES (4, 5671943519616771712, 32);
INSERT INTO forum.leaf VALUES (4, 3910654182519415881, 34);
INSERT INTO forum.leaf VALUES (4, -5905106234242483751, 35);
INSERT INTO forum.leaf VALUES (4, -3661853519949784242, 36);
INSERT INTO forum.leaf VALUES (4, -190784762263584992, 38);
INSERT INTO forum.leaf VALUES (4, 3665292110785568242, 37);
INSERT INTO forum.leaf VALUES (4, -7282057029759516461, 42);
INSERT INTO forum.leaf VALUES (4, -3030261924499822217, 39);
INSERT INTO forum.leaf VALUES (4, -888257559016523756, 41);
INSERT INTO forum.leaf VALUES (4, 1095587094674848712, 43);
INSERT INTO forum.leaf VALUES (4, 5632987156443977427, 40);
INSERT INTO forum.leaf VALUES (4, -5326577915209358199, 49);
INSERT INTO forum.leaf VALUES (4, -1213745684036991213, 45);
INSERT INTO forum.leaf VALUES (4, -487844848806187966, 44);
INSERT INTO forum.leaf VALUES (4, 3479745247850874972, 48);
INSERT INTO forum.leaf VALUES (4, 4193411846675443696, 46);
INSERT INTO forum.leaf VALUES (4, 5538584693155468807, 47);
INSERT INTO forum.leaf VALUES (4, -5740211164144705210, 53);
INSERT INTO forum.leaf VALUES (4, -174169944649708691, 51);
INSERT INTO forum.leaf VALUES (4, 240880706827807305, 52);
INSERT INTO forum.leaf VALUES (4, 2779654306569301327, 50);
INSERT INTO forum.leaf VALUES (4, 5400203363514412215, 54);
INSERT INTO forum.leaf VALUES (4, -8190283410275607986, 56);
INSERT INTO forum.leaf VALUES (4, -7360548960901319780, 57);
INSERT INTO forum.leaf VALUES (4, -6985364027565328333, 61);
INSERT INTO forum.leaf VALUES (4, -3599243447240143932, 62);
INSERT INTO forum.leaf VALUES (4, -1696878371430771977, 59);
INSERT INTO forum.leaf VALUES (4, 555635815922965777, 55);
INSERT INTO forum.leaf VALUES (4, 1514228024733115685, 63);
INSERT INTO forum.leaf VALUES (4, 7902316062485538219, 58);
INSERT INTO forum.leaf VALUES (4, 8188094380520094482, 60);
INSERT INTO forum.leaf VALUES (4, -9222577001662628514, 67);
INSERT INTO forum.leaf VALUES (4, -3959173983183115647, 68);
INSERT INTO forum.leaf VALUES (4, -2875583644522814085, 65);
INSERT INTO forum.leaf VALUES (4, -1722722344738286035, 66);
INSERT INTO forum.leaf VALUES (4, 580197601784249725, 64);
INSERT INTO forum.leaf VALUES (4, -4157073102757946685, 69);
INSERT INTO forum.leaf VALUES (4, 4957798568659214865, 70);
INSERT INTO forum.leaf VALUES (4, 1405260560297250546, 71);
INSERT INTO forum.leaf VALUES (4, 6281251887200144667, 72);
INSERT INTO forum.leaf VALUES (4, -7202330805293777456, 75);
INSERT INTO forum.leaf VALUES (4, -7047199721339297547, 74);
INSERT INTO forum.leaf VALUES (4, 3220172065839571904, 73);
INSERT INTO forum.leaf VALUES (4, -4720022010838250415, 76);
INSERT INTO forum.leaf VALUES (4, -2406392131882679152, 78);
INSERT INTO forum.leaf VALUES (4, 1987383990232444511, 77);
INSERT INTO forum.leaf VALUES (4, -5435692251792615610, 81);
INSERT INTO forum.leaf VALUES (4, -65750905110791766, 79);
INSERT INTO forum.leaf VALUES (4, 7852510566057313764, 80);
INSERT INTO forum.leaf VALUES (4, -8703502257212392541, 82);
INSERT INTO forum.leaf VALUES (4, -6252714281055626741, 84);
INSERT INTO forum.leaf VALUES (4, 1593788742316266600, 85);
INSERT INTO forum.leaf VALUES (4, 7294569540480354900, 83);
INSERT INTO forum.leaf VALUES (4, -6617019714297776165, 88);
INSERT INTO forum.leaf VALUES (4, -2909439702712000999, 86);
INSERT INTO forum.leaf VALUES (4, -429619611390244884, 87);


--
-- Data for Name: lease; Type: TABLE DATA; Schema: forum; Owner: -
--

INSERT INTO forum.lease VALUES (1, 'host-11096-e76e48e6', 1794807024078092);
INSERT INTO forum.lease VALUES (4, 'host-11499-ed979e25', 1794807048545945);


--
-- Data for Name: log; Type: TABLE DATA; Schema: forum; Owner: -
--

INSERT INTO forum.log OVERRIDING SYSTEM VALUE VALUES (4, 'forum.local/ffd7f0eb/epoch-2', 89, '\x83c66c3d94c6fcb9d539cfcf2ff3f275e02398f76ad987067979c0d869a22b19');
INSERT INTO forum.log OVERRIDING SYSTEM VALUE VALUES (1, 'forum.local/ffd7f0eb', 14, '\x9ae0d2989a5d554b1ba0f3b0adf678c75ab8af30cc6aa7fff6506098a6cd9426');


--
-- Data for Name: migration; Type: TABLE DATA; Schema: forum; Owner: -
--

INSERT INTO forum.migration VALUES (1, '2026-11-16 05:30:18.419767+00');
INSERT INTO forum.migration VALUES (2, '2026-11-16 05:30:18.419767+00');
INSERT INTO forum.migration VALUES (3, '2026-11-16 05:30:18.419767+00');


--
-- Data for Name: once; Type: TABLE DATA; Schema: forum; Owner: -
--



--
-- Data for Name: pending; Type: TABLE DATA; Schema: forum; Owner: -
--



--
-- Data for Name: sequenced; Type: TABLE DATA; Schema: forum; Owner: -
--

INSERT INTO forum.sequenced VALUES (1, 0, '{1,1}', '{0,1}');
INSERT INTO forum.sequenced VALUES (1, 2, '{2,2,2}', '{0,1,2}');
INSERT INTO forum.sequenced VALUES (1, 5, '{3,3,3}', '{0,1,2}');
INSERT INTO forum.sequenced VALUES (1, 8, '{4,4,4,5,3,3}', '{0,1,2,0,3,4}');
INSERT INTO forum.sequenced VALUES (4, 0, '{6,6}', '{0,1}');
INSERT INTO forum.sequenced VALUES (4, 2, '{7,7,7}', '{0,1,2}');
INSERT INTO forum.sequenced VALUES (4, 5, '{8,8,8}', '{0,1,2}');
INSERT INTO forum.sequenced VALUES (4, 8, '{6}', '{2}');
INSERT INTO forum.sequenced VALUES (4, 9, '{10,10,10}', '{0,1,2}');
INSERT INTO forum.sequenced VALUES (4, 12, '{11,11,11,12,10,10}', '{0,1,2,0,3,4}');
INSERT INTO forum.sequenced VALUES (4, 18, '{13,13,13}', '{0,1,2}');
INSERT INTO forum.sequenced VALUES (4, 21, '{14}', '{0}');
INSERT INTO forum.sequenced VALUES (4, 22, '{14,14}', '{1,2}');
INSERT INTO forum.sequenced VALUES (4, 24, '{15,15,15}', '{0,1,2}');
INSERT INTO forum.sequenced VALUES (4, 27, '{16}', '{0}');
INSERT INTO forum.sequenced VALUES (4, 28, '{16}', '{1}');
INSERT INTO forum.sequenced VALUES (4, 29, '{18,18,18,19,13}', '{0,1,2,0,3}');
INSERT INTO forum.sequenced VALUES (4, 34, '{13}', '{4}');
INSERT INTO forum.sequenced VALUES (4, 35, '{21,21}', '{0,1}');
INSERT INTO forum.sequenced VALUES (4, 37, '{21,22}', '{2,0}');
INSERT INTO forum.sequenced VALUES (4, 39, '{23,24,22,22,22}', '{0,0,1,2,3}');
INSERT INTO forum.sequenced VALUES (4, 44, '{23,23,23,24,24,24}', '{1,2,3,1,2,3}');
INSERT INTO forum.sequenced VALUES (4, 50, '{21,21,25,26,27}', '{3,4,0,0,0}');
INSERT INTO forum.sequenced VALUES (4, 55, '{25,25,25,26,26,26,27,27,27}', '{1,2,3,1,2,3,1,2,3}');
INSERT INTO forum.sequenced VALUES (4, 64, '{21,21,28,21,21}', '{5,6,0,7,8}');
INSERT INTO forum.sequenced VALUES (4, 69, '{29}', '{0}');
INSERT INTO forum.sequenced VALUES (4, 70, '{29}', '{1}');
INSERT INTO forum.sequenced VALUES (4, 71, '{29}', '{2}');
INSERT INTO forum.sequenced VALUES (4, 72, '{6}', '{3}');
INSERT INTO forum.sequenced VALUES (4, 73, '{33,33,33}', '{0,1,2}');
INSERT INTO forum.sequenced VALUES (4, 76, '{34}', '{0}');
INSERT INTO forum.sequenced VALUES (4, 77, '{34,34}', '{1,2}');
INSERT INTO forum.sequenced VALUES (4, 79, '{35,35,35}', '{0,1,2}');
INSERT INTO forum.sequenced VALUES (4, 82, '{36}', '{0}');
INSERT INTO forum.sequenced VALUES (4, 83, '{37,37,37}', '{0,1,2}');
INSERT INTO forum.sequenced VALUES (4, 86, '{38,38,38}', '{0,1,2}');


--
-- Data for Name: strand; Type: TABLE DATA; Schema: forum; Owner: -
--

INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (1, 1, 'log', 'main');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (2, 1, '01a1e2d5-b965-7913-8c22-a6e96e1b26a5', 'main');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (3, 1, '01a1e2d5-c238-77c8-8c89-3c5ff032cba9', 'main');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (4, 1, '01a1e2d5-c238-77c8-8c89-3c5ff032cba9', 'task/answer');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (5, 1, '01a1e2d5-c238-77c8-8c89-3c5ff032cba9', 'control');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (6, 4, 'log', 'main');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (7, 4, '01a1e2d5-d00c-7ac3-ba05-c508f22900d0', 'main');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (8, 4, '01a1e2d5-d33f-75eb-a644-00f62d8cde89', 'main');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (10, 4, '01a1e2d5-e269-7642-a42d-60e73ebabbee', 'main');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (11, 4, '01a1e2d5-e269-7642-a42d-60e73ebabbee', 'task/answer');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (12, 4, '01a1e2d5-e269-7642-a42d-60e73ebabbee', 'control');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (13, 4, '01a1e2d5-edc9-733a-8010-71a7c48c776f', 'main');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (14, 4, '01a1e2d5-edc9-733a-8010-71a7c48c776f', 'task/facts');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (15, 4, '01a1e2d5-edc9-733a-8010-71a7c48c776f', 'task/count');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (16, 4, '01a1e2d5-edc9-733a-8010-71a7c48c776f', 'gate/task/report');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (18, 4, '01a1e2d5-edc9-733a-8010-71a7c48c776f', 'task/report');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (19, 4, '01a1e2d5-edc9-733a-8010-71a7c48c776f', 'control');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (21, 4, '01a1e2d6-0ab0-7082-936d-46dafba89b5a', 'main');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (22, 4, '01a1e2d6-0ab0-7082-936d-46dafba89b5a', 'turn/ballot.0.3');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (23, 4, '01a1e2d6-0ab0-7082-936d-46dafba89b5a', 'turn/ballot.0.1');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (24, 4, '01a1e2d6-0ab0-7082-936d-46dafba89b5a', 'turn/ballot.0.2');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (25, 4, '01a1e2d6-0ab0-7082-936d-46dafba89b5a', 'turn/ballot.1.3');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (26, 4, '01a1e2d6-0ab0-7082-936d-46dafba89b5a', 'turn/ballot.1.1');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (27, 4, '01a1e2d6-0ab0-7082-936d-46dafba89b5a', 'turn/ballot.1.2');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (28, 4, '01a1e2d6-0ab0-7082-936d-46dafba89b5a', 'control');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (29, 4, 'log', 'access');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (33, 4, '01a1e2d6-1eff-7d73-9fdf-2c4ffac42979', 'main');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (34, 4, '01a1e2d6-1eff-7d73-9fdf-2c4ffac42979', 'task/facts');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (35, 4, '01a1e2d6-1eff-7d73-9fdf-2c4ffac42979', 'task/count');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (36, 4, '01a1e2d6-1eff-7d73-9fdf-2c4ffac42979', 'gate/task/report');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (37, 4, '01a1e2d6-2d42-7a03-92fd-ad0d7b1c823b', 'main');
INSERT INTO forum.strand OVERRIDING SYSTEM VALUE VALUES (38, 4, '01a1e2d6-301b-7887-8fc8-587d622035a5', 'main');


--
-- Data for Name: tile; Type: TABLE DATA; Schema: forum; Owner: -
--

INSERT INTO forum.tile VALUES (1, 0, 0, '\xddfef77fb5d06c3806503a4d194ceb3543c90aea34fb283e445d8ce5d35e4dab89cf6884a371daaa03f4445d2046b931bb95c662d32804b73ff626317bfa0b73fb863a39dac0aac96e9c19a045d1dffb8c55536f040ce748c176a6ad39f47b1272fbbd55a85bcb7d2df44c0dcd0ecd60df73392be1d7c287b3a532c4028ab0729bb4b37051a39371c25ce6d72f6680e2b27eca77edc58f5c690b8558f368137c6c6be42ff0b47abe0a50425e19d4a2085df317675fcf95171b9f8fe05026b5373193e39e781fa93138fbb39d5c26ef2db2105146e9b466c5cf4d3d80c1c89c38bcdc76a192d2ad46bf99cbd42ffe4ed0cb33dd7dff94b48c8cdb2df92a6515e72f1a3ac8c9d6717046ca7a54a5a8c34ae328b3ba95ef83f9026c0776a629ab5681de869019f74545b7db96ae557c1056ab63e61205f4208380ca22054daad18105d4942cc3d1a1ea1359271c300d7ff9d9bfbeaaaa7aecf5d4ca64d9f37fd55e54f9c5c9142ca7a6493c56d86e77469e225934a94dc9d6fc158f27eaa0a0fa19175fe67d5077c554486d84bf29c5eb3aada2b650b95dc727f12fddf465148c7706fde519229915c2659ebf35de06a0fdc65b7954b06e4240e4a01246a61892d0');
INSERT INTO forum.tile VALUES (4, 0, 0, '\x54c3418870fab274f4f732ec26d545d10390eff4a0611930e375a142437de83845eef0a75eba05b671fb84f13059f3bdeaedfa3fcf12e65637127ab4a8bd2c6472e0179b766024ca77c86d534f9e820439591f6e402666e20a535ea07f0833ade35a3f457ff999cacfaa69feb3af425d585e3a4520cfca909b9d934db8c6ac4e0270cce9984659d8791a0372746dfb85cbfc1b89c833602c0b106184476dd9d6db05beca6821caaecf1dc0f30a9b4a504afd5821e04dd50c709dfe74f97e946f3014fe2c08a18d3dfe2d7dcfd9dc9bd7c129b8fe3e9c88f212e05c0463c9017b0b550ff36fb957c60e9a3aa9e761cb5f5cbbb9646a8e75fce6f270d21f6492eb46dc408cdb987d369c117db0aba1ce8981b2796ad7abb8f6831f4672171601bb7ea25e17f2099fc1831c16584c51ad095968d9da05c5d3407a23b754a09a121fc421c82ef300b1dab0727972c83f409f65b663ef3eabcb658c385f84f0f611daf7c5d907a4b6dfa15c187af26639a3de6b5cce2834e510876637bc35bce10b8a7b77863d8aa1855734e73b3ccdd03e48c64deb8e2e1c771c76b1fa74cece925ba9aba695665615600c254e9610c871337d0b8d6c19c3807e18696dc083a7e59e3a9d031aa597fb66e79bb35872700d3da069061aca81f63768a7192c3a8460924b09461947647ec10b6875f1eb46eaa2208663f16d0ba29cbba947051adb7f7094a24347c35cb1a3202533c97f9ff62bab962737ab60a200046efe8614c830ff453768cd13b1bc3de20c601d95e6958edfe5f54c360bcfddbe243e27ddab5873000faa0a3be61ae8fec176f7d181dd738e00cf4bb1562e9e643b135f5dc76e51843c538e253cc639a69708b125ff73aafdae285347d105fafaa576645295d285f70bd68a0638ddacbdfd5b19fddba1a5eb365e1d51ba06ff28150c7410cf7d1093be17648c8fb0a43b6d91fa50243a6d35f6ecab4b3ffa5cc878da929447b7d927cefda700717f9c3cae31c77563ef5c22efa995fa113b9ab3ff66c363e35b2d58111f5bdac725adffc379b891a087fce9c05c3ffa904dfbefbc3db2c9f066f1942602a5f300a8b7faa6e0816ef47a36c826ee84bdbb2b21796b1e56a173cea77f04d6f2b24c4c92fc8608e65a411199fbdb21c360fb1935763ab984b919368e4444d2fff395ec1f691530a36f365e2d52e67840dc565cc22c71390117296b6c378d293f38323ad904a7c1db539831716168f769799441ac3134bfe03fcb58d017fdbf413578d22d663b2204940eedd8061d57d0c74f315963aa0b10b496a537bb5e5e098062f2f579e5b3b78607c02df463ba2bca24f305757f8f6711d425a28a6b4a3b5343003273548e2c1a6940257a5b2687e4b334b5eecaa10910dd4dea240ac39f9243a6bde4cd1bf857485140b036621053ccebbf2d0ee052453c64bc4eb6ca9470d6268065c81d9aed1951ba23468a8e92aa41ea260adf6138c803f300e24c9fd0650bf5b265801435ad1daf4c5774fdfdf6d9ae0793fad79d831b8336456f426c7724499d4eb908f1945911c078b9f5e195717c2237f07f5405bd3bae0cd92aa30839d933a2533a26ac73f2376351be0bd334a8c101a86031c64268cd2e7b9ffbe11b4e9ef7943dae0f7b38b5f403dc4cc14b09c088372e6b73084232ddbbc1556a5df2c9a49d11370ee6ed490883b9f0146b5a8c1ada476452bcacfd5a324500b8bf20a6d3a6081fff47c7f7126f0576fa24c1f1165df6a0d8cc49d5f258d5adcbe9775507ccc54fc2ce57d4e47d7b6f018fd1faab2e88162a3a074e2c63f9542e56d3243eeddb5f6782d89a69bcc8e963ca021175179a54dd7420f3ac4674cdc3b814e6448c11e6311e49839b1e6132784ac903f65794d62a7d7c9af0efb6a30c40d35aa6921d28f04621f0c96eaeecf8e0f41ef491b334af95bd0f344ea86e98bbc8a2a4622438b61e973b7fcbfeb76b9b62f29928ce84ebf146f93ad3b1d9672c420ba6cefaf5b82a2ffadffa39878b783b166607a843373666ef27e8bb274fc713738dc58ad143437f41f92cd38387f25fb638bbe157ef85923a31fddb5e012ff0b88ba179f1752c54997a8d06d077771c0542364ac6bc0f5f4cdd016f09f2960734eb75266b93c6178d464ae44fb091a96b47203e271c7e8d304a89ddcf01485c5f3e3e947427c86c1a9bab5a62fea237ce79e9e4a958ace6b614319b878164899bfe109b11011e10307891eba2d62bc8654763750d2ce05d269350dd5572ad4ffda22f8c9b5e0c0926e7bf0ef4e17768fa05bfe7d1a5f334fd95395bae9acb6d0fe8c0fd2da1bcde1d7a5310b9b61d3d04639c7aa979ca670357c7ba03b76a49a2d4b529bf2b52e7de66e8c2cea7ddd0f4ef7da3cc448efeb056ac5bf16c6146af3c0efa8413fb9ce670dee18d61ca49a7e4063d5f74edc24af16058fd256cb7635d107e1744e2dea4c7cba5fcaa09bea19f29c32d3af76507b603d4a8929d11562f07f52c4791d02546ac3b317f7ea7ea812aa1885a47208e5644a1e0bf5a4e06ed8d528360d179724ed8c10b7a87d7dea95a1e42aa258d99da13b7c99b339c9e5ce60a2d9239a1431f5f37197421bf87cc69f266a7706f6daaaa972f5065abc79bd5e099a0033ce94859ecb47642cac733e6528462bce4e8737a1c93d352f71e581fc9c15a800763e20f8b5c9abb791423b29738ebe0a471a1f474ea45bb127c41aaaf2e7750b45f2f62ff8f4edea86069e6f79621bc8e9f0f006d4e2d38337428cadd5044ad79da4797c4d2dc706d0ea3070dbb39a1a1ce0ceb2783194bc482fc7860a2cb6b7d99cf4cc5baccdf5500d5ab6fe2b6d00a15039e5da328a525aab50a74d851a92cb53043b85ded3aa32cbbe6bf4e99e423080d46a511e23d7d1c8a9610872a3d7ab061abc4ec4050b3e6c8deadc415476ad817dfe92a4b657bad8c2bc3ca8291f930e4626f14deb3863a4239688c8692b3e817a927a33f162d0549b242eb2309bd15cd47a6615b09f3855cbbc2aa9393e38002d3148e363d5e9ebfd1348630d1973f870a534b1cb974658d5fa58e2b1238c90e303d2866ea8161bacba54e6e6a2ce83b6a6e921a8abaed1fac71c48382a8c64f1c09c4c81ac38a229a1ef8233e440931524e0cc4c438eee3f7ccb536b50344cda387d8df6211ae8c05134131ed0e5c98753b7b04a88e137edce94661945c13807d08c1624ef2dee275bf2a2a95ac2981fd2deb114c2d35f546475d0e5aff572b7d4fd9510d1b5c472a85bbe88380b293070474780887b27d0c8a8b5325102cb0596ec400e3c0690b3a2785a40a64abea7066fb999c57f6d1002b09e592139e335130ec56e0f571cabb32c33f227d3e65db3a34abfa7fc2946b33465578f99c0c2e4acb9c7dd0fb76869b750c08f4203dc60d84af194b53f31441ec8b2dddbe7f1cfd27f60c51071a65c2addfc5373c15e183246a7cdab3d858865f946a1d1b949b35a21a6e5f3bd25415b63d9198d0b4f16eeff3842c3e243a6c16b614c9de9ac71b0cd684909426dc370daf89e779cfe14ad2f6ca6539c2e1dab96c6e69ff1667e67135f9aa0a8ac1a1bb8e07d0575fcfcb7c21d05e418181c4f9e0ee266cf9b8c164d905e44d3f3317fed31be35119305e2c59538b898e3a92827bef20b4908ab24f8ed7463bf134374d4de3f5f407d3df7be7c0895cfb45df9be774b48736f2cf690b7ba3832c3bccccaf7ff98876bde3d19dd96638595ecf3ac6c266653b845949b74a540618bdc2222f266ea7d6440d50ea37f96cde0cb767c734efa939e57d5baada0bf23c213442ad88fd07585fee96ae0982cb93fe50f5df71a2161e466ab8c71468750a03a173ff13ad6819bafc4806a643c049ea8e2f5c0e90d79f9801586ede193acf48ef2ec5a9ea02198f9399db1ce39f376ca51dab3246fa09af3d5a8b07ecd18d97ab23063355a1e930846d7ab06fa20d26b28b38ba48a42b9fa0d98637db155577cc17c9aff7603b7c9f516e6ed0dd1b4c3e53be11b3');


--
-- Name: log_id_seq; Type: SEQUENCE SET; Schema: forum; Owner: -
--

SELECT pg_catalog.setval('forum.log_id_seq', 23, true);


--
-- Name: pending_seq_seq; Type: SEQUENCE SET; Schema: forum; Owner: -
--

SELECT pg_catalog.setval('forum.pending_seq_seq', 69, true);


--
-- Name: strand_id_seq; Type: SEQUENCE SET; Schema: forum; Owner: -
--

SELECT pg_catalog.setval('forum.strand_id_seq', 38, true);


--
-- Name: application_versions application_versions_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.application_versions
    ADD CONSTRAINT application_versions_pkey PRIMARY KEY (version_id);


--
-- Name: application_versions application_versions_version_name_key; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.application_versions
    ADD CONSTRAINT application_versions_version_name_key UNIQUE (version_name);


--
-- Name: dbos_migrations dbos_migrations_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.dbos_migrations
    ADD CONSTRAINT dbos_migrations_pkey PRIMARY KEY (version);


--
-- Name: event_dispatch_kv event_dispatch_kv_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.event_dispatch_kv
    ADD CONSTRAINT event_dispatch_kv_pkey PRIMARY KEY (service_name, workflow_fn_name, key);


--
-- Name: notifications notifications_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.notifications
    ADD CONSTRAINT notifications_pkey PRIMARY KEY (message_uuid);


--
-- Name: operation_outputs operation_outputs_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.operation_outputs
    ADD CONSTRAINT operation_outputs_pkey PRIMARY KEY (workflow_uuid, function_id);


--
-- Name: queues queues_name_key; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.queues
    ADD CONSTRAINT queues_name_key UNIQUE (name);


--
-- Name: queues queues_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (queue_id);


--
-- Name: streams streams_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.streams
    ADD CONSTRAINT streams_pkey PRIMARY KEY (workflow_uuid, key, "offset");


--
-- Name: workflow_events_history workflow_events_history_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.workflow_events_history
    ADD CONSTRAINT workflow_events_history_pkey PRIMARY KEY (workflow_uuid, function_id, key);


--
-- Name: workflow_events workflow_events_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.workflow_events
    ADD CONSTRAINT workflow_events_pkey PRIMARY KEY (workflow_uuid, key);


--
-- Name: workflow_input workflow_input_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.workflow_input
    ADD CONSTRAINT workflow_input_pkey PRIMARY KEY (workflow_uuid);


--
-- Name: workflow_output workflow_output_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.workflow_output
    ADD CONSTRAINT workflow_output_pkey PRIMARY KEY (workflow_uuid);


--
-- Name: workflow_schedules workflow_schedules_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.workflow_schedules
    ADD CONSTRAINT workflow_schedules_pkey PRIMARY KEY (schedule_id);


--
-- Name: workflow_schedules workflow_schedules_schedule_name_key; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.workflow_schedules
    ADD CONSTRAINT workflow_schedules_schedule_name_key UNIQUE (schedule_name);


--
-- Name: workflow_status workflow_status_pkey; Type: CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.workflow_status
    ADD CONSTRAINT workflow_status_pkey PRIMARY KEY (workflow_uuid);


--
-- Name: account account_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.account
    ADD CONSTRAINT account_pkey PRIMARY KEY (log, run);


--
-- Name: alarm alarm_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.alarm
    ADD CONSTRAINT alarm_pkey PRIMARY KEY (log, run, strand);


--
-- Name: body body_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.body
    ADD CONSTRAINT body_pkey PRIMARY KEY (log, strand, n, name, part);


--
-- Name: checkpoint checkpoint_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.checkpoint
    ADD CONSTRAINT checkpoint_pkey PRIMARY KEY (log, size);


--
-- Name: entry entry_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.entry
    ADD CONSTRAINT entry_pkey PRIMARY KEY (log, strand, n);


--
-- Name: leaf leaf_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.leaf
    ADD CONSTRAINT leaf_pkey PRIMARY KEY (log, prefix, idx);


--
-- Name: lease lease_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (log, worker);


--
-- Name: log log_origin_key; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.log
    ADD CONSTRAINT log_origin_key UNIQUE (origin);


--
-- Name: log log_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (id);


--
-- Name: migration migration_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);


--
-- Name: once once_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.once
    ADD CONSTRAINT once_pkey PRIMARY KEY (log, name);


--
-- Name: pending pending_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.pending
    ADD CONSTRAINT pending_pkey PRIMARY KEY (log, seq);


--
-- Name: sequenced sequenced_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.sequenced
    ADD CONSTRAINT sequenced_pkey PRIMARY KEY (log, first);


--
-- Name: strand strand_log_run_name_key; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.strand
    ADD CONSTRAINT strand_log_run_name_key UNIQUE (log, run, name);


--
-- Name: strand strand_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.strand
    ADD CONSTRAINT strand_pkey PRIMARY KEY (id);


--
-- Name: tile tile_pkey; Type: CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.tile
    ADD CONSTRAINT tile_pkey PRIMARY KEY (log, level, idx);


--
-- Name: idx_operation_outputs_completed_at_function_name_v2; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_operation_outputs_completed_at_function_name_v2 ON dbos.operation_outputs USING btree (completed_at_epoch_ms, function_name) INCLUDE (application_name);


--
-- Name: idx_operation_outputs_retention; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_operation_outputs_retention ON dbos.operation_outputs USING btree (retention_timestamp);


--
-- Name: idx_workflow_input_retention; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_input_retention ON dbos.workflow_input USING btree (retention_timestamp);


--
-- Name: idx_workflow_output_retention; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_output_retention ON dbos.workflow_output USING btree (retention_timestamp);


--
-- Name: idx_workflow_status_attributes; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_attributes ON dbos.workflow_status USING gin (attributes) WHERE (attributes IS NOT NULL);


--
-- Name: idx_workflow_status_completed_at; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_completed_at ON dbos.workflow_status USING btree (completed_at) WHERE (completed_at IS NOT NULL);


--
-- Name: idx_workflow_status_deadline; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_deadline ON dbos.workflow_status USING btree (workflow_deadline_epoch_ms) WHERE ((status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text, 'DELAYED'::text])) AND (workflow_deadline_epoch_ms IS NOT NULL));


--
-- Name: idx_workflow_status_delayed; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_delayed ON dbos.workflow_status USING btree (delay_until_epoch_ms) WHERE (status = 'DELAYED'::text);


--
-- Name: idx_workflow_status_failed; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_failed ON dbos.workflow_status USING btree (status, created_at) WHERE (status = ANY (ARRAY['ERROR'::text, 'CANCELLED'::text, 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'::text]));


--
-- Name: idx_workflow_status_forked_from; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_forked_from ON dbos.workflow_status USING btree (forked_from) WHERE (forked_from IS NOT NULL);


--
-- Name: idx_workflow_status_in_flight_v2; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_in_flight_v2 ON dbos.workflow_status USING btree (queue_name, status, priority, created_at) INCLUDE (application_name) WHERE (status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text]));


--
-- Name: idx_workflow_status_parent_workflow_id; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_parent_workflow_id ON dbos.workflow_status USING btree (parent_workflow_id) WHERE (parent_workflow_id IS NOT NULL);


--
-- Name: idx_workflow_status_partition_dequeue_v3; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_partition_dequeue_v3 ON dbos.workflow_status USING btree (queue_name, status, queue_partition_key, priority, created_at, workflow_uuid) INCLUDE (application_name) WHERE ((status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text])) AND (queue_partition_key IS NOT NULL));


--
-- Name: idx_workflow_status_pending; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_pending ON dbos.workflow_status USING btree (created_at) WHERE (status = 'PENDING'::text);


--
-- Name: idx_workflow_status_rate_limited; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_rate_limited ON dbos.workflow_status USING btree (queue_name, started_at_epoch_ms) WHERE (rate_limited = true);


--
-- Name: idx_workflow_status_schedule_name; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_schedule_name ON dbos.workflow_status USING btree (schedule_name) WHERE (schedule_name IS NOT NULL);


--
-- Name: idx_workflow_status_started_at; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_status_started_at ON dbos.workflow_status USING btree (started_at_epoch_ms) WHERE (started_at_epoch_ms IS NOT NULL);


--
-- Name: idx_workflow_topic; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX idx_workflow_topic ON dbos.notifications USING btree (destination_uuid, topic);


--
-- Name: uq_application_versions_owner_version; Type: INDEX; Schema: dbos; Owner: -
--

CREATE UNIQUE INDEX uq_application_versions_owner_version ON dbos.application_versions USING btree (application_name, version_name) WHERE (application_name IS NOT NULL);


--
-- Name: uq_application_versions_unclaimed_version; Type: INDEX; Schema: dbos; Owner: -
--

CREATE UNIQUE INDEX uq_application_versions_unclaimed_version ON dbos.application_versions USING btree (version_name) WHERE (application_name IS NULL);


--
-- Name: uq_workflow_status_dedup_id; Type: INDEX; Schema: dbos; Owner: -
--

CREATE UNIQUE INDEX uq_workflow_status_dedup_id ON dbos.workflow_status USING btree (queue_name, deduplication_id) WHERE (deduplication_id IS NOT NULL);


--
-- Name: workflow_status_created_at_index; Type: INDEX; Schema: dbos; Owner: -
--

CREATE INDEX workflow_status_created_at_index ON dbos.workflow_status USING btree (created_at);


--
-- Name: alarm_due; Type: INDEX; Schema: forum; Owner: -
--

CREATE INDEX alarm_due ON forum.alarm USING btree (log, at);


--
-- Name: notifications notifications_destination_uuid_fkey; Type: FK CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.notifications
    ADD CONSTRAINT notifications_destination_uuid_fkey FOREIGN KEY (destination_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: streams streams_workflow_uuid_fkey; Type: FK CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.streams
    ADD CONSTRAINT streams_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: workflow_events_history workflow_events_history_workflow_uuid_fkey; Type: FK CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.workflow_events_history
    ADD CONSTRAINT workflow_events_history_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: workflow_events workflow_events_workflow_uuid_fkey; Type: FK CONSTRAINT; Schema: dbos; Owner: -
--

ALTER TABLE ONLY dbos.workflow_events
    ADD CONSTRAINT workflow_events_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: strand strand_log_fkey; Type: FK CONSTRAINT; Schema: forum; Owner: -
--

ALTER TABLE ONLY forum.strand
    ADD CONSTRAINT strand_log_fkey FOREIGN KEY (log) REFERENCES forum.log(id);


--
-- PostgreSQL database dump complete
--


