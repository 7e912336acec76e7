CREATE TABLE covdp_claims (
    scope integer NOT NULL,
    unit bytea NOT NULL,
    night integer NOT NULL,
    label text NOT NULL,
    mac bytea NOT NULL
);
CREATE TABLE covdp_journal (
    number integer NOT NULL,
    event text NOT NULL,
    mac text NOT NULL
);
CREATE TABLE covdp_meta (
    name text NOT NULL,
    value text NOT NULL
);
CREATE TABLE covdp_results (
    identity text NOT NULL,
    result bytea NOT NULL
);
INSERT INTO covdp_claims VALUES (7, '\xb0297ad8e116f1f51e3d7f39a13f19b7', 8, '0 normal', '\x54100538f41f4c5629fa678cb0367686352a382d98da7a61030d515f3ee9a89f');
INSERT INTO covdp_claims VALUES (7, '\x0d11519bb362408f86abd12050cced0f', 8, '0 normal', '\x89b7db8fcf293cc20f4fecc26c40974895d3a0f7ffe5d816e02f442c7b0507a7');
INSERT INTO covdp_claims VALUES (7, '\xc5d97e6923fa4733abac7a6ec3662b02', 10, '0 normal', '\x2429e805ee120504000048b5d6bae21719bfa71cb2edbf8d78bf6741241b12bc');
INSERT INTO covdp_claims VALUES (7, '\xcb50101127df7bfb452b7ffb405b4c4e', 10, '0 normal', '\x03ff54aa0bf0f74602db9ddbb822d560feb115e1eb80029939413b65f60f0447');
INSERT INTO covdp_journal VALUES (1, '{"at": "2026-11-28T12:38:04+00:00", "format": "2", "kind": "ledger"}', 'b7f0e926f6e7d3a5792b4492f516723ab68f13963579394a714850935c322961');
INSERT INTO covdp_journal VALUES (2, '{"at": "2026-11-28T12:38:04+00:00", "budget": {"definition": "gdp", "mu": 2.0}, "delta": 1e-05, "kind": "budget", "population": "ward", "text": "opened with \u03bc = 2, shown at \u03b4 = 1e-05"}', 'a4d261584cf9478c7695580868f5bb09f7bc2b01600b2a28115c7ddfdbd8b4ea');
INSERT INTO covdp_journal VALUES (3, '{"at": "2026-11-28T12:38:04+00:00", "budget": {"definition": "gdp", "mu": 1.0}, "delta": 1e-05, "kind": "budget", "population": "zone", "text": "opened with \u03bc = 1, shown at \u03b4 = 1e-05"}', '15b5efcef2465c51f9a7b122b9173df5a63c99840a99f882afc6724d5188016d');
INSERT INTO covdp_journal VALUES (4, '{"at": "2026-11-28T12:38:04+00:00", "classes": 1, "contents": {"all classes": "c8adc97c76c60c70931881a6e660e21cf7edcb0d367eaf0ce2669e665ded8713", "each class": "99517cfdb746a2ac2cb1081add349135802a6132887a4787576def3bacddbc8e"}, "cost": {"definition": "gdp", "mu": 0.5}, "group": 1, "identity": "302385aaf36a1f4636459562e019539fef9b0562daa9d8f36cb4054c938fcde7", "kind": "charge", "population": "ward", "query": "{\"name\": \"ward\"}", "run_key": "monday", "unit": "image"}', 'e0b9adaab9f8a77adba948d4d8f01d3c9c7b1e03a94945e83547f44eb8ba356f');
INSERT INTO covdp_journal VALUES (5, '{"at": "2026-11-28T12:38:04+00:00", "digest": "1401eb71259365b72b404296050c0e247da644ac9b3c5271372e8de7f5c61004", "identity": "302385aaf36a1f4636459562e019539fef9b0562daa9d8f36cb4054c938fcde7", "kind": "result"}', '45991864e5c03db88abba8d4c6af2a3ddd9fe613c9f16cc20e776b195ccc3783');
INSERT INTO covdp_journal VALUES (6, '{"at": "2026-11-28T12:38:04+00:00", "classes": 1, "contents": {"all classes": "523ed225acb657c882d77d8af6595c57051c68d3c9701d3461671bdf301111f8", "each class": "c040bb834c2796f723666ea39768f799b9c53028685d24282f6cadcf525ef076"}, "cost": {"definition": "gdp", "mu": 0.5}, "group": 1, "identity": "e5965a13b89cd164d9a0841974b5afc93d57acd2902e00f33fe4b0064c46eaa0", "kind": "charge", "population": "ward", "query": "{\"name\": \"ward\"}", "run_key": "tuesday", "unit": "image"}', '12aaf6331d67b12d69ed20b2a8d6c492189b196c1dca2d61989d7e4164369a77');
INSERT INTO covdp_journal VALUES (7, '{"at": "2026-11-28T12:38:04+00:00", "identity": "f6c15e149ee2c0e87ce2e11f05d8c9e7791b45fe13644f8140c1a8f7d9709108", "kind": "stream", "name": "nightly", "population": "zone", "scope": 7, "settings": {"classes": 1, "cost": {"definition": "gdp", "mu": 0.5}, "follows": null, "group": 1, "horizon": 50, "query": "query", "unit": "image"}}', '335ba33b1b9bbd838792cd01c55a4dc676392882a5ba93aa127bc4ad6b50757c');
INSERT INTO covdp_journal VALUES (8, '{"at": "2026-11-28T12:38:05+00:00", "claims": "c64f494a2b0c47fb0c12bdfd101b911d6721981ba89765a541bb38b3bcd63b91", "content": "be3db25ad78210363cb1e06653518dd84c12e0b56e21d56df0a2d16197e50db3", "identity": "bf043e6836d9768333d18dfd9c183ee9e82652c0f18bb41376827aa0e456c0e7", "kind": "night", "night": 1, "run_key": "2026-03-01", "stream": "f6c15e149ee2c0e87ce2e11f05d8c9e7791b45fe13644f8140c1a8f7d9709108", "units": 2}', '0bc4f1d5b4acff1f6a6d25c83ec3e9e1e85dbebf7064fb0e9fa07c84c6259a09');
INSERT INTO covdp_journal VALUES (9, '{"at": "2026-11-28T12:38:05+00:00", "digest": "cf728cfee20dcfe9b2f6f49cef81e218efb71ebaf213c0b0abe5e129a48f1bb2", "identity": "bf043e6836d9768333d18dfd9c183ee9e82652c0f18bb41376827aa0e456c0e7", "kind": "result"}', '6598769b72fc798e83586aeee8330c906e0490d2e9019caa61c197f1e470821b');
INSERT INTO covdp_journal VALUES (10, '{"at": "2026-11-28T12:38:05+00:00", "claims": "d1a02bb1a1479dbdf1ed20c95659b6e832b63bb8ca5268d78ab936aa5c1e6eb1", "content": "187ae67cdbeec95ed234a30f2904218fb036ed192be80307f7ccd5ef610ef805", "identity": "f62f4aeec8b0523844f74676234420bf1b0bc6cdf3ad4e442a44912510a7f216", "kind": "night", "night": 2, "run_key": "2026-03-02", "stream": "f6c15e149ee2c0e87ce2e11f05d8c9e7791b45fe13644f8140c1a8f7d9709108", "units": 2}', '7230b47d3010cb17203a889520c5ee037c174dfd023a68d1999161a89bd5d757');
INSERT INTO covdp_meta VALUES ('format', '2');
INSERT INTO covdp_meta VALUES ('key', '8df1fc7a9dfc57677917ff8c358760fe37525ab8b2869a11f69d3ecb5c0c619f');
INSERT INTO covdp_meta VALUES ('seal', '10 4b8301286d3fee63f431bc515ea65235cf1435dd8d021c3edec4630139341ee0');
INSERT INTO covdp_results VALUES ('302385aaf36a1f4636459562e019539fef9b0562daa9d8f36cb4054c938fcde7', '\x72656c6561736564206f6e206d6f6e646179');
INSERT INTO covdp_results VALUES ('bf043e6836d9768333d18dfd9c183ee9e82652c0f18bb41376827aa0e456c0e7', '\x6669727374206e69676874');
ALTER TABLE ONLY covdp_claims
    ADD CONSTRAINT covdp_claims_pkey PRIMARY KEY (scope, unit);
ALTER TABLE ONLY covdp_journal
    ADD CONSTRAINT covdp_journal_pkey PRIMARY KEY (number);
ALTER TABLE ONLY covdp_meta
    ADD CONSTRAINT covdp_meta_pkey PRIMARY KEY (name);
ALTER TABLE ONLY covdp_results
    ADD CONSTRAINT covdp_results_pkey PRIMARY KEY (identity);
CREATE INDEX covdp_claims_night ON covdp_claims USING btree (night, label);
