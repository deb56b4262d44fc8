CREATE FUNCTION public.audit_refuses_changes() RETURNS trigger
    LANGUAGE plpgsql
    AS $$begin raise exception 'the table audit is append-only'; end$$;
CREATE TABLE public.answers (
    id text NOT NULL COLLATE pg_catalog."C",
    request text NOT NULL COLLATE pg_catalog."C",
    outcome text NOT NULL COLLATE pg_catalog."C",
    at_ms bigint NOT NULL
);
CREATE TABLE public.audit (
    id text NOT NULL COLLATE pg_catalog."C",
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    at_ms bigint NOT NULL,
    actor text NOT NULL COLLATE pg_catalog."C",
    action text NOT NULL COLLATE pg_catalog."C",
    key_id text NOT NULL COLLATE pg_catalog."C",
    detail text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.confirmations (
    digest text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    gateway_id text NOT NULL COLLATE pg_catalog."C",
    at_ms bigint NOT NULL
);
CREATE TABLE public.gateways (
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    seen_at_ms bigint NOT NULL,
    disconnected_at_ms bigint NOT NULL
);
CREATE TABLE public.key_use (
    key_id text NOT NULL COLLATE pg_catalog."C",
    last_used_at_ms bigint NOT NULL
);
CREATE TABLE public.keys (
    id text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    scopes text NOT NULL COLLATE pg_catalog."C",
    hint text NOT NULL COLLATE pg_catalog."C",
    created_at_ms bigint NOT NULL,
    created_by text NOT NULL COLLATE pg_catalog."C",
    expires_at_ms bigint NOT NULL,
    revoked_at_ms bigint,
    rotated_from text COLLATE pg_catalog."C",
    replaced_by text COLLATE pg_catalog."C",
    version integer NOT NULL,
    changed_at_ms bigint DEFAULT 0 NOT NULL,
    CONSTRAINT keys_version_check CHECK ((version >= 1))
);
CREATE TABLE public.kysely_migration (
    name character varying(255) NOT NULL,
    "timestamp" character varying(255) NOT NULL
);
CREATE TABLE public.kysely_migration_lock (
    id character varying(255) NOT NULL,
    is_locked integer DEFAULT 0 NOT NULL
);
CREATE TABLE public.notices (
    id text NOT NULL COLLATE pg_catalog."C",
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    key_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    occasion text NOT NULL COLLATE pg_catalog."C",
    at_ms bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C",
    attempts integer NOT NULL,
    due_at_ms bigint,
    delivered_at_ms bigint,
    last_status integer,
    last_error text COLLATE pg_catalog."C"
);
CREATE TABLE public.outbox (
    digest text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    at_ms bigint NOT NULL,
    claimed_by text DEFAULT ''::text NOT NULL,
    claimed_until_ms bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.sessions (
    digest text NOT NULL COLLATE pg_catalog."C",
    subject text NOT NULL COLLATE pg_catalog."C",
    person text NOT NULL COLLATE pg_catalog."C",
    csrf_secret text NOT NULL COLLATE pg_catalog."C",
    started_at_ms bigint NOT NULL,
    seen_at_ms bigint NOT NULL
);
INSERT INTO public.answers VALUES ('840afef287f34d7d8f54fdce74f71572f2be79663cfaf9e6036394b2eacd9701', 'e589ecead34b29f63f4ac7aee64f95bce16d722836877297c9afff69bb48a6a1', '{"record":{"id":"key_01M86N5Y9XW7T5Q7N5P6RK3410","workspaceId":"ws_1","name":"active","scopes":["files:read"],"hint":"wsk_…4cvk","createdAtMs":1795519871293,"createdBy":"admin-token","expiresAtMs":1803295871293,"revokedAtMs":null,"rotatedFrom":null,"replacedBy":null,"version":1},"replaced":null}', 1795519871294);
INSERT INTO public.answers VALUES ('89bbf6630b3dd6788c8de5504e001ae6f6be51d1ba238f0ec46a027085cffb06', 'ede55e9a010b57af1646181d16c5a60e5d7ce62d9215cc3b8ccf1a97e366a1ef', '{"record":{"id":"key_01M86N5YAF0Z18RM3531AKG6KZ","workspaceId":"ws_1","name":"rotated","scopes":["files:read"],"hint":"wsk_…MxHK","createdAtMs":1795519871311,"createdBy":"admin-token","expiresAtMs":1795606271307,"revokedAtMs":null,"rotatedFrom":null,"replacedBy":null,"version":1},"replaced":null}', 1795519871312);
INSERT INTO public.answers VALUES ('c317ee4582e9c9a73d10c396f256b02701566ed0662e0c16e9d015836e1b9cf5', '7e7a576c413a1ce7f773338bd38ba7ac271adfefd05fc3b76209d59888aaf352', '{"record":{"id":"key_01M86N5YARH5RFA7E8B6A9WV3Q","workspaceId":"ws_1","name":"revoked","scopes":["files:read"],"hint":"wsk_…kBW9","createdAtMs":1795519871320,"createdBy":"admin-token","expiresAtMs":1803295871320,"revokedAtMs":null,"rotatedFrom":null,"replacedBy":null,"version":1},"replaced":null}', 1795519871320);
INSERT INTO public.answers VALUES ('a48e6b7cfd79db53548e89aa6d07cc0ef180d9459e4f2e66251edd76e42b0496', 'ef003fc1ad021e2a02c0610ab00425cc305039ab74aa6b05178f5ed7846ad073', '{"record":{"id":"key_01M86N5YB0ZGMT730Y4GHAK16Y","workspaceId":"ws_1","name":"rotated","scopes":["files:read"],"hint":"wsk_…TXvj","createdAtMs":1795519871328,"createdBy":"admin-token","expiresAtMs":1803295871328,"revokedAtMs":null,"rotatedFrom":"key_01M86N5YAF0Z18RM3531AKG6KZ","replacedBy":null,"version":1},"replaced":{"id":"key_01M86N5YAF0Z18RM3531AKG6KZ","workspaceId":"ws_1","name":"rotated","scopes":["files:read"],"hint":"wsk_…MxHK","createdAtMs":1795519871311,"createdBy":"admin-token","expiresAtMs":1795523471328,"revokedAtMs":null,"rotatedFrom":null,"replacedBy":"key_01M86N5YB0ZGMT730Y4GHAK16Y","version":2}}', 1795519871329);
INSERT INTO public.answers VALUES ('fdf1017c85e94e69f88626a9dcb760fe399984641a390d57ae55884b0935a286', '489b2852d147436c3a57e1bf558a6e064107df35d877b7336513a770798cbf60', '{"record":{"id":"key_01M86N5YARH5RFA7E8B6A9WV3Q","workspaceId":"ws_1","name":"revoked","scopes":["files:read"],"hint":"wsk_…kBW9","createdAtMs":1795519871320,"createdBy":"admin-token","expiresAtMs":1803295871320,"revokedAtMs":1795519871339,"rotatedFrom":null,"replacedBy":null,"version":2},"replaced":null}', 1795519871339);
INSERT INTO public.answers VALUES ('1775bb2663e9af40b58f39fd417f8fcbb1a2723c403d80d13884b7054a4deea4', 'b35b13a3dbad11ce41684609dd103fa5bd745453aea727ee203a729fef8ae549', '{"record":{"id":"key_01M86N5YBK3TV1PH6BQ01ZCA6M","workspaceId":"ws_2","name":"other","scopes":["workspace:read"],"hint":"wsk_…FweN","createdAtMs":1795519871347,"createdBy":"admin-token","expiresAtMs":1803295871347,"revokedAtMs":null,"rotatedFrom":null,"replacedBy":null,"version":1},"replaced":null}', 1795519871348);
INSERT INTO public.audit VALUES ('audit_01M86N5Y9XGN535BCZPPYNRSQD', 'ws_1', 1795519871293, 'admin-token', 'key.issued', 'key_01M86N5Y9XW7T5Q7N5P6RK3410', '{"name":"active","scopes":["files:read"],"expiresAt":"2027-02-22T11:31:11.293Z","from":"127.0.0.1","requestId":"351982a39c09787ecfe162f6c9e9d748"}');
INSERT INTO public.audit VALUES ('audit_01M86N5YAF5PTP23DD7M43V9QR', 'ws_1', 1795519871311, 'admin-token', 'key.issued', 'key_01M86N5YAF0Z18RM3531AKG6KZ', '{"name":"rotated","scopes":["files:read"],"expiresAt":"2026-11-25T11:31:11.307Z","from":"127.0.0.1","requestId":"12e0823d03659bb27e165f3be094a9d0"}');
INSERT INTO public.audit VALUES ('audit_01M86N5YAR2T74NGCWZ94D0M8S', 'ws_1', 1795519871320, 'admin-token', 'key.issued', 'key_01M86N5YARH5RFA7E8B6A9WV3Q', '{"name":"revoked","scopes":["files:read"],"expiresAt":"2027-02-22T11:31:11.320Z","from":"127.0.0.1","requestId":"90b9cd95352fa31481b009040dceb56d"}');
INSERT INTO public.audit VALUES ('audit_01M86N5YB0PMAXP0TFDEEH1211', 'ws_1', 1795519871328, 'admin-token', 'key.rotated', 'key_01M86N5YAF0Z18RM3531AKG6KZ', '{"name":"rotated","scopes":["files:read"],"overlapSeconds":3600,"expiresAt":"2026-11-24T12:31:11.328Z","successor":"key_01M86N5YB0ZGMT730Y4GHAK16Y","successorExpiresAt":"2027-02-22T11:31:11.328Z","from":"127.0.0.1","requestId":"0e02782518215be1450983bc53643ad0"}');
INSERT INTO public.audit VALUES ('audit_01M86N5YBB44Y99DX1CPD2SFFJ', 'ws_1', 1795519871339, 'admin-token', 'key.revoked', 'key_01M86N5YARH5RFA7E8B6A9WV3Q', '{"name":"revoked","scopes":["files:read"],"from":"127.0.0.1","requestId":"2ed92a1d39b19bd3b84167dd581cc279"}');
INSERT INTO public.audit VALUES ('audit_01M86N5YBK6R789AF2XPJ11PS3', 'ws_2', 1795519871347, 'admin-token', 'key.issued', 'key_01M86N5YBK3TV1PH6BQ01ZCA6M', '{"name":"other","scopes":["workspace:read"],"expiresAt":"2027-02-22T11:31:11.347Z","from":"127.0.0.1","requestId":"445e23593b5ae8243fa7a3eeaaf1b778"}');
INSERT INTO public.confirmations VALUES ('3edabf8d85ead53ec0d9e90dbb122e8e617d37746082c0b6bb3b587f26d9d1e4', 1, 'gw-1', 1795519871355);
INSERT INTO public.key_use VALUES ('key_01M86N5Y9XW7T5Q7N5P6RK3410', 1795519871293);
INSERT INTO public.keys VALUES ('key_01M86N5Y9XW7T5Q7N5P6RK3410', '3edabf8d85ead53ec0d9e90dbb122e8e617d37746082c0b6bb3b587f26d9d1e4', 'ws_1', 'active', '["files:read"]', 'wsk_…4cvk', 1795519871293, 'admin-token', 1803295871293, NULL, NULL, NULL, 1, 1795519871294);
INSERT INTO public.keys VALUES ('key_01M86N5YAF0Z18RM3531AKG6KZ', '19f3ea2043878fd3d60b3ebcd21a6f74891ba69c86979104cf954251d40a5058', 'ws_1', 'rotated', '["files:read"]', 'wsk_…MxHK', 1795519871311, 'admin-token', 1795523471328, NULL, NULL, 'key_01M86N5YB0ZGMT730Y4GHAK16Y', 2, 1795519871329);
INSERT INTO public.keys VALUES ('key_01M86N5YB0ZGMT730Y4GHAK16Y', '799a410d4586dce64de7f70309a237850c1de51b0d888a0eae3ea156d59fbe7c', 'ws_1', 'rotated', '["files:read"]', 'wsk_…TXvj', 1795519871328, 'admin-token', 1803295871328, NULL, 'key_01M86N5YAF0Z18RM3531AKG6KZ', NULL, 1, 1795519871329);
INSERT INTO public.keys VALUES ('key_01M86N5YARH5RFA7E8B6A9WV3Q', '46eb34b2a84587e0e5a6a154cc2cbe1f7df00d5828e1a6353eb07092dc88c5be', 'ws_1', 'revoked', '["files:read"]', 'wsk_…kBW9', 1795519871320, 'admin-token', 1803295871320, 1795519871339, NULL, NULL, 2, 1795519871339);
INSERT INTO public.keys VALUES ('key_01M86N5YBK3TV1PH6BQ01ZCA6M', 'f4a4a9787e8c46733104d384ccee0073f0fe22297d3378727594a1d1e535b445', 'ws_2', 'other', '["workspace:read"]', 'wsk_…FweN', 1795519871347, 'admin-token', 1803295871347, NULL, NULL, NULL, 1, 1795519871348);
INSERT INTO public.kysely_migration VALUES ('0001_keys_and_outbox', '2026-11-24T11:31:05.213Z');
INSERT INTO public.kysely_migration VALUES ('0002_rotation_audit_answers_use', '2026-11-24T11:31:05.227Z');
INSERT INTO public.kysely_migration VALUES ('0003_sessions', '2026-11-24T11:31:05.231Z');
INSERT INTO public.kysely_migration VALUES ('0004_gateways', '2026-11-24T11:31:05.237Z');
INSERT INTO public.kysely_migration VALUES ('0005_notices', '2026-11-24T11:31:05.242Z');
INSERT INTO public.kysely_migration_lock VALUES ('migration_lock', 0);
INSERT INTO public.notices VALUES ('msg_01M86N5Y9XGN535BCZPPYNRSQD', 'ws_1', 'key_01M86N5Y9XW7T5Q7N5P6RK3410', 'key.issued', 'audit_01M86N5Y9XGN535BCZPPYNRSQD', 1795519871293, '{"type":"key.issued","timestamp":"2026-11-24T11:31:11.293Z","data":{"key":{"id":"key_01M86N5Y9XW7T5Q7N5P6RK3410","workspaceId":"ws_1","name":"active","scopes":["files:read"],"hint":"wsk_…4cvk","createdAt":"2026-11-24T11:31:11.293Z","createdBy":"admin-token","expiresAt":"2027-02-22T11:31:11.293Z","revokedAt":null,"rotatedFrom":null,"replacedBy":null,"version":1,"state":"active"},"actor":"admin-token"}}', 1, NULL, 1795519872228, 204, NULL);
INSERT INTO public.notices VALUES ('msg_01M86N5YAF5PTP23DD7M43V9QR', 'ws_1', 'key_01M86N5YAF0Z18RM3531AKG6KZ', 'key.issued', 'audit_01M86N5YAF5PTP23DD7M43V9QR', 1795519871311, '{"type":"key.issued","timestamp":"2026-11-24T11:31:11.311Z","data":{"key":{"id":"key_01M86N5YAF0Z18RM3531AKG6KZ","workspaceId":"ws_1","name":"rotated","scopes":["files:read"],"hint":"wsk_…MxHK","createdAt":"2026-11-24T11:31:11.311Z","createdBy":"admin-token","expiresAt":"2026-11-25T11:31:11.307Z","revokedAt":null,"rotatedFrom":null,"replacedBy":null,"version":1,"state":"active"},"actor":"admin-token"}}', 1, NULL, 1795519872229, 204, NULL);
INSERT INTO public.notices VALUES ('msg_01M86N5YBK6R789AF2XPJ11PS3', 'ws_2', 'key_01M86N5YBK3TV1PH6BQ01ZCA6M', 'key.issued', 'audit_01M86N5YBK6R789AF2XPJ11PS3', 1795519871347, '{"type":"key.issued","timestamp":"2026-11-24T11:31:11.347Z","data":{"key":{"id":"key_01M86N5YBK3TV1PH6BQ01ZCA6M","workspaceId":"ws_2","name":"other","scopes":["workspace:read"],"hint":"wsk_…FweN","createdAt":"2026-11-24T11:31:11.347Z","createdBy":"admin-token","expiresAt":"2027-02-22T11:31:11.347Z","revokedAt":null,"rotatedFrom":null,"replacedBy":null,"version":1,"state":"active"},"actor":"admin-token"}}', 1, NULL, 1795519872236, 204, NULL);
INSERT INTO public.notices VALUES ('msg_01M86N5YAR2T74NGCWZ94D0M8S', 'ws_1', 'key_01M86N5YARH5RFA7E8B6A9WV3Q', 'key.issued', 'audit_01M86N5YAR2T74NGCWZ94D0M8S', 1795519871320, '{"type":"key.issued","timestamp":"2026-11-24T11:31:11.320Z","data":{"key":{"id":"key_01M86N5YARH5RFA7E8B6A9WV3Q","workspaceId":"ws_1","name":"revoked","scopes":["files:read"],"hint":"wsk_…kBW9","createdAt":"2026-11-24T11:31:11.320Z","createdBy":"admin-token","expiresAt":"2027-02-22T11:31:11.320Z","revokedAt":null,"rotatedFrom":null,"replacedBy":null,"version":1,"state":"active"},"actor":"admin-token"}}', 1, NULL, 1795519872239, 204, NULL);
INSERT INTO public.notices VALUES ('msg_01M86N5YBB44Y99DX1CPD2SFFJ', 'ws_1', 'key_01M86N5YARH5RFA7E8B6A9WV3Q', 'key.revoked', 'audit_01M86N5YBB44Y99DX1CPD2SFFJ', 1795519871339, '{"type":"key.revoked","timestamp":"2026-11-24T11:31:11.339Z","data":{"key":{"id":"key_01M86N5YARH5RFA7E8B6A9WV3Q","workspaceId":"ws_1","name":"revoked","scopes":["files:read"],"hint":"wsk_…kBW9","createdAt":"2026-11-24T11:31:11.320Z","createdBy":"admin-token","expiresAt":"2027-02-22T11:31:11.320Z","revokedAt":"2026-11-24T11:31:11.339Z","rotatedFrom":null,"replacedBy":null,"version":2,"state":"revoked"},"actor":"admin-token"}}', 1, NULL, 1795519872244, 204, NULL);
INSERT INTO public.notices VALUES ('msg_01M86N5YB0PMAXP0TFDEEH1211', 'ws_1', 'key_01M86N5YAF0Z18RM3531AKG6KZ', 'key.rotated', 'audit_01M86N5YB0PMAXP0TFDEEH1211', 1795519871328, '{"type":"key.rotated","timestamp":"2026-11-24T11:31:11.328Z","data":{"key":{"id":"key_01M86N5YAF0Z18RM3531AKG6KZ","workspaceId":"ws_1","name":"rotated","scopes":["files:read"],"hint":"wsk_…MxHK","createdAt":"2026-11-24T11:31:11.311Z","createdBy":"admin-token","expiresAt":"2026-11-24T12:31:11.328Z","revokedAt":null,"rotatedFrom":null,"replacedBy":"key_01M86N5YB0ZGMT730Y4GHAK16Y","version":2,"state":"retiring"},"actor":"admin-token","successor":{"id":"key_01M86N5YB0ZGMT730Y4GHAK16Y","workspaceId":"ws_1","name":"rotated","scopes":["files:read"],"hint":"wsk_…TXvj","createdAt":"2026-11-24T11:31:11.328Z","createdBy":"admin-token","expiresAt":"2027-02-22T11:31:11.328Z","revokedAt":null,"rotatedFrom":"key_01M86N5YAF0Z18RM3531AKG6KZ","replacedBy":null,"version":1,"state":"active"}}}', 1, NULL, 1795519872245, 204, NULL);
ALTER TABLE ONLY public.answers
    ADD CONSTRAINT answers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.confirmations
    ADD CONSTRAINT confirmations_key PRIMARY KEY (digest, version, gateway_id);
ALTER TABLE ONLY public.gateways
    ADD CONSTRAINT gateways_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.key_use
    ADD CONSTRAINT key_use_pkey PRIMARY KEY (key_id);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.kysely_migration_lock
    ADD CONSTRAINT kysely_migration_lock_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.kysely_migration
    ADD CONSTRAINT kysely_migration_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.notices
    ADD CONSTRAINT notices_occasion_key UNIQUE (occasion);
ALTER TABLE ONLY public.notices
    ADD CONSTRAINT notices_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_key PRIMARY KEY (digest, version);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (digest);
CREATE INDEX answers_by_time ON public.answers USING btree (at_ms);
CREATE INDEX audit_by_workspace ON public.audit USING btree (workspace_id, id);
CREATE INDEX confirmations_by_time ON public.confirmations USING btree (at_ms);
CREATE INDEX keys_by_change ON public.keys USING btree (changed_at_ms) WHERE (version > 1);
CREATE INDEX keys_by_expiry ON public.keys USING btree (expires_at_ms);
CREATE INDEX keys_by_hint ON public.keys USING btree (workspace_id, hint);
CREATE INDEX keys_by_workspace ON public.keys USING btree (workspace_id, id);
CREATE INDEX notices_by_due ON public.notices USING btree (due_at_ms);
CREATE INDEX notices_by_workspace ON public.notices USING btree (workspace_id, id);
CREATE INDEX outbox_by_time ON public.outbox USING btree (at_ms);
CREATE INDEX sessions_by_subject ON public.sessions USING btree (subject);
CREATE INDEX sessions_by_time ON public.sessions USING btree (seen_at_ms);
CREATE TRIGGER audit_refuses_changes BEFORE DELETE OR UPDATE OR TRUNCATE ON public.audit FOR EACH STATEMENT EXECUTE FUNCTION public.audit_refuses_changes();
ALTER TABLE ONLY public.key_use
    ADD CONSTRAINT key_use_key_id_fkey FOREIGN KEY (key_id) REFERENCES public.keys(id);
