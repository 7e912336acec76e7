BEGIN TRANSACTION;
CREATE TABLE covdp_claims (
	scope INTEGER NOT NULL, 
	unit BLOB NOT NULL, 
	night INTEGER NOT NULL, 
	label TEXT NOT NULL, 
	mac BLOB NOT NULL, 
	PRIMARY KEY (scope, unit)
)
 WITHOUT ROWID

;
INSERT INTO "covdp_claims" VALUES(7,X'26D51950C668EA5214590B908CE848C4',8,'0 normal',X'49E84F95822B4D009D1955DFBDED455F49A85EF00D0B5D9EA2A3450DD4CD0020');
INSERT INTO "covdp_claims" VALUES(7,X'5FEE48A98F8A3608D284F1FD0732FC2B',10,'0 normal',X'E715AC0D77A89C2CE32CA40DA5D732B2FF1D8F62DCE036D0D662641F36F2E781');
INSERT INTO "covdp_claims" VALUES(7,X'86567CECAB64EDEAA1B0DEBA566D395E',10,'0 normal',X'68884E99EEC78EA6AA991C195D0F23718054C97B0808815CDBA90F9AAD9FCBB0');
INSERT INTO "covdp_claims" VALUES(7,X'8DEFE906B2B97E2285CED5E797AAC8F4',8,'0 normal',X'7FA20E245293D7683594B50F7733354ADF416B9E111EE454D1A248EA180E8365');
CREATE TABLE covdp_journal (
	number INTEGER NOT NULL, 
	event TEXT NOT NULL, 
	mac TEXT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "covdp_journal" VALUES(1,'{"at": "2026-11-28T12:38:04+00:00", "format": "2", "kind": "ledger"}','030277dd4818ba3f4fc78a2ba54b47952dafea1c3bcc07ec52768a5648db10ab');
INSERT INTO "covdp_journal" VALUES(2,'{"at": "2026-11-28T12:38:04+00:00", "budget": {"definition": "gdp", "mu": 2.0}, "delta": 1e-05, "kind": "budget", "population": "ward", "text": "opened with \u03bc = 2, shown at \u03b4 = 1e-05"}','3af611994705ba154700fb8589d4aa43a9eb9a2fd96c20192517a083fcef8d83');
INSERT INTO "covdp_journal" VALUES(3,'{"at": "2026-11-28T12:38:04+00:00", "budget": {"definition": "gdp", "mu": 1.0}, "delta": 1e-05, "kind": "budget", "population": "zone", "text": "opened with \u03bc = 1, shown at \u03b4 = 1e-05"}','bd71e6457ceb933a1aaef284d9c26e37eac39a888be01dc68761875f22e08b57');
INSERT INTO "covdp_journal" VALUES(4,'{"at": "2026-11-28T12:38:04+00:00", "classes": 1, "contents": {"all classes": "0120ae7c5fa79f7b7623788458633aa6344be321b189b21f62410f552268ac15", "each class": "864a1afb98d53246717cb2c19d2fa248e7d676a9e348116cfe3045ef882109ba"}, "cost": {"definition": "gdp", "mu": 0.5}, "group": 1, "identity": "037fdb39739bef26a363d83b6b673fc231bd6a5563b40c2067afc686b816f7d7", "kind": "charge", "population": "ward", "query": "{\"name\": \"ward\"}", "run_key": "monday", "unit": "image"}','85b51cf7026238b67f5a3ea8874882f7c716958df9eb7b19950bd62c6f300645');
INSERT INTO "covdp_journal" VALUES(5,'{"at": "2026-11-28T12:38:04+00:00", "digest": "1401eb71259365b72b404296050c0e247da644ac9b3c5271372e8de7f5c61004", "identity": "037fdb39739bef26a363d83b6b673fc231bd6a5563b40c2067afc686b816f7d7", "kind": "result"}','5c768cd394a56896b0de713de46785b35741cfe3149b87a038b58af2214390f0');
INSERT INTO "covdp_journal" VALUES(6,'{"at": "2026-11-28T12:38:04+00:00", "classes": 1, "contents": {"all classes": "1ddfde44fd4bb7652c6a9ac74cab5a8cee9220c676073aa097a064342d19d71b", "each class": "560096d84fe910b14e315cd1ca00f2bfedb534f6720e1670dee129ba3dde7366"}, "cost": {"definition": "gdp", "mu": 0.5}, "group": 1, "identity": "791d00b9357ef7640631a3c9e3225833caaeeb38bbfabca46898c0075c7e082d", "kind": "charge", "population": "ward", "query": "{\"name\": \"ward\"}", "run_key": "tuesday", "unit": "image"}','cc5bb79d637cd1056796ac756d49e9deb940ae9cd36f30f12448610904cc2289');
INSERT INTO "covdp_journal" VALUES(7,'{"at": "2026-11-28T12:38:04+00:00", "identity": "bcf2da33a9cbc449e59d7a068d6847a259a423817815c25c3d1d1cbe493223f9", "kind": "stream", "name": "nightly", "population": "zone", "scope": 7, "settings": {"classes": 1, "cost": {"definition": "gdp", "mu": 0.5}, "follows": null, "group": 1, "horizon": 50, "query": "query", "unit": "image"}}','947b5d6a078272af0e490a9104c4e1439428fd93d5cf27972d36c59197f165c2');
INSERT INTO "covdp_journal" VALUES(8,'{"at": "2026-11-28T12:38:04+00:00", "claims": "517230a44a98cc7cf687751b748760c6367fbf11519fedf25e8659e7b5680f63", "content": "79f0b22a7dd8075158ef81aa74e9257e573a3adc0d87eb16914cc52eed19abf2", "identity": "827dced5fd572af7965f1b4e914c5b016a866cd15bdda0a00872b50cb9cbd955", "kind": "night", "night": 1, "run_key": "2026-03-01", "stream": "bcf2da33a9cbc449e59d7a068d6847a259a423817815c25c3d1d1cbe493223f9", "units": 2}','057b56b861cfe207e2fd2fac70fc33e48a871783b8c38be7ad813e88d0cd498a');
INSERT INTO "covdp_journal" VALUES(9,'{"at": "2026-11-28T12:38:04+00:00", "digest": "cf728cfee20dcfe9b2f6f49cef81e218efb71ebaf213c0b0abe5e129a48f1bb2", "identity": "827dced5fd572af7965f1b4e914c5b016a866cd15bdda0a00872b50cb9cbd955", "kind": "result"}','a0d65c764347dc2b0bae516a5e24523b0a6553f7d68f64cdc3435eccaf00be9a');
INSERT INTO "covdp_journal" VALUES(10,'{"at": "2026-11-28T12:38:04+00:00", "claims": "cf4434aade0c9c110445c60fe6de88a62a960a8cf820323b3a4faccc590ea3ce", "content": "55a7fc3d514b0f86009a473aa7371a08d266e5322526391c8d38518f1c05c767", "identity": "f8552c4cae9a605d25330d6eb51883f998e88b5764ac1b720c31d509f802212b", "kind": "night", "night": 2, "run_key": "2026-03-02", "stream": "bcf2da33a9cbc449e59d7a068d6847a259a423817815c25c3d1d1cbe493223f9", "units": 2}','a4df2a9e75bc0181f96655008fe16c72c9dfbc590c211b707a091c73e26db0ce');
CREATE TABLE covdp_meta (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "covdp_meta" VALUES('format','2');
INSERT INTO "covdp_meta" VALUES('key','37252ea72b732fc1e5aa65004a370f36a567d2e0fd6449751c4637ffe4d68f50');
INSERT INTO "covdp_meta" VALUES('seal','10 b05cf73ad280b57f9b8eaf9e62d37f4b55b7024c6900fcc0fa810399592a9444');
CREATE TABLE covdp_results (
	identity TEXT NOT NULL, 
	result BLOB NOT NULL, 
	PRIMARY KEY (identity)
);
INSERT INTO "covdp_results" VALUES('037fdb39739bef26a363d83b6b673fc231bd6a5563b40c2067afc686b816f7d7',X'72656C6561736564206F6E206D6F6E646179');
INSERT INTO "covdp_results" VALUES('827dced5fd572af7965f1b4e914c5b016a866cd15bdda0a00872b50cb9cbd955',X'6669727374206E69676874');
CREATE INDEX covdp_claims_night ON covdp_claims (night, label);
COMMIT;
