BEGIN TRANSACTION;
CREATE TABLE covdp_changes (
	id INTEGER NOT NULL, 
	at TEXT NOT NULL, 
	population TEXT NOT NULL, 
	text TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "covdp_changes" VALUES(1,'2026-11-21T20:29:49+00:00','ward-7','opened with GDP(mu=2.0), shown at δ = 1e-05');
INSERT INTO "covdp_changes" VALUES(2,'2026-11-21T20:29:49+00:00','ward-7','changed from GDP(mu=2.0), shown at δ = 1e-05, to GDP(mu=3.0), shown at δ = 1e-06');
INSERT INTO "covdp_changes" VALUES(3,'2026-11-21T20:29:49+00:00','ward-7 ','opened with GDP(mu=1.0), shown at δ = 1e-05');
INSERT INTO "covdp_changes" VALUES(4,'2026-11-21T20:29:49+00:00','breast','opened with ZCDP(rho=0.3), shown at δ = 1e-05');
INSERT INTO "covdp_changes" VALUES(5,'2026-11-21T20:29:49+00:00',' breast','opened with GDP(mu=0.3), shown at δ = 1e-05');
INSERT INTO "covdp_changes" VALUES(6,'2026-11-21T20:29:49+00:00','wаrd-9','opened with GDP(mu=1.0), shown at δ = 1e-05');
INSERT INTO "covdp_changes" VALUES(7,'2026-11-21T20:29:49+00:00','Klinik Zürich','opened with GDP(mu=1.0), shown at δ = 1e-05');
CREATE TABLE covdp_contents (
	digest TEXT NOT NULL, 
	population TEXT NOT NULL, 
	PRIMARY KEY (digest)
);
INSERT INTO "covdp_contents" VALUES('770dbf9b35e33adc4c2336fe41f9a665c97812b233ffcd4b2cd0172f783e3579','ward-7');
INSERT INTO "covdp_contents" VALUES('8b5618a331cea910eea16f4d37eab6f272164cc0a349845eefcd3be5530849d1','ward-7');
INSERT INTO "covdp_contents" VALUES('32a667350a89aa34bc9f408b179568f3fd5f9b3dc7c3011b18c2e534c1101f99','ward-7 ');
INSERT INTO "covdp_contents" VALUES('7d4c90d58eb53c8695b0caa8ddac83b2964b8c0c60f3fa882ecd9ec15b2ec4b8','ward-7 ');
INSERT INTO "covdp_contents" VALUES('a4522bb413fbc845935962ebcb05e242990ca40a6fd30ff5b9e4dc3245602f85','breast');
INSERT INTO "covdp_contents" VALUES('0f220472af1dfc8dc6ad2bb088bda62aff67ff6a137f3ece6f41fb7b0e76bd0a','breast');
INSERT INTO "covdp_contents" VALUES('728b9feab59ba20f769f26b952f078b2f78d5c2fd2787d37952bb2c1feecc300',' breast');
INSERT INTO "covdp_contents" VALUES('564d0ead38adc27b18a6cee3167e2174d3022562ec124aa7b1c8fd15f0b7a8d6',' breast');
INSERT INTO "covdp_contents" VALUES('48b761d349f2606a34924a5ef604daba8df2559717d6ec7f61f44548e0e3f6c7','wаrd-9');
INSERT INTO "covdp_contents" VALUES('9d4c79dbff3f5620d83226d60ea1b0bd1d791381dbf4a9e5758b562273468d56','wаrd-9');
CREATE TABLE covdp_meta (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "covdp_meta" VALUES('format','1');
INSERT INTO "covdp_meta" VALUES('key','5e6df9e2876b57bb39ac5fe09ea61818f76c08658570928057f5a43796b8fd5f');
CREATE TABLE covdp_populations (
	name TEXT NOT NULL, 
	budget TEXT NOT NULL, 
	delta DOUBLE NOT NULL, 
	created TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "covdp_populations" VALUES('ward-7','{"definition": "gdp", "mu": 3.0}',1.0e-06,'2026-11-21T20:29:49+00:00');
INSERT INTO "covdp_populations" VALUES('ward-7 ','{"definition": "gdp", "mu": 1.0}',1.0e-05,'2026-11-21T20:29:49+00:00');
INSERT INTO "covdp_populations" VALUES('breast','{"definition": "zcdp", "rho": 0.3}',1.0e-05,'2026-11-21T20:29:49+00:00');
INSERT INTO "covdp_populations" VALUES(' breast','{"definition": "gdp", "mu": 0.3}',1.0e-05,'2026-11-21T20:29:49+00:00');
INSERT INTO "covdp_populations" VALUES('wаrd-9','{"definition": "gdp", "mu": 1.0}',1.0e-05,'2026-11-21T20:29:49+00:00');
INSERT INTO "covdp_populations" VALUES('Klinik Zürich','{"definition": "gdp", "mu": 1.0}',1.0e-05,'2026-11-21T20:29:49+00:00');
CREATE TABLE covdp_releases (
	identity TEXT NOT NULL, 
	population TEXT NOT NULL, 
	"query" TEXT NOT NULL, 
	run_key TEXT NOT NULL, 
	contents TEXT NOT NULL, 
	cost TEXT NOT NULL, 
	reserved TEXT NOT NULL, 
	result BLOB, 
	result_digest TEXT, 
	committed TEXT, 
	PRIMARY KEY (identity)
);
INSERT INTO "covdp_releases" VALUES('6e20c009c46716d20d5359f0ce38a806a6f1c9414b9f240de2e720ef5eabbb76','ward-7','{"descriptor": "oct5"}','monday','{"ill": "8b5618a331cea910eea16f4d37eab6f272164cc0a349845eefcd3be5530849d1", "well": "770dbf9b35e33adc4c2336fe41f9a665c97812b233ffcd4b2cd0172f783e3579"}','{"definition": "gdp", "mu": 0.5}','2026-11-21T20:29:49+00:00',X'6E6F6973656420776172642D37206D6F6E646179','abcf2d5c5e5e6b486fa8fed3873bee2554e83097a9bbd9a58513138368dc5bed','2026-11-21T20:29:49+00:00');
INSERT INTO "covdp_releases" VALUES('4fe642f814ecb662fd2d5dd7d3a9dae17b5d1024838f81a86a20c996b92be187','ward-7','{"descriptor": "oct5"}','tuesday','{"ill": "8b5618a331cea910eea16f4d37eab6f272164cc0a349845eefcd3be5530849d1", "well": "770dbf9b35e33adc4c2336fe41f9a665c97812b233ffcd4b2cd0172f783e3579"}','{"definition": "gdp", "mu": 0.5}','2026-11-21T20:29:49+00:00',NULL,NULL,NULL);
INSERT INTO "covdp_releases" VALUES('79a50e3b809f1348f073057c81d5f2b41167f626b35d2a805ba2bbe8eaa512fc','ward-7','{"descriptor": "oct5"}','2026/03/01','{"ill": "8b5618a331cea910eea16f4d37eab6f272164cc0a349845eefcd3be5530849d1", "well": "770dbf9b35e33adc4c2336fe41f9a665c97812b233ffcd4b2cd0172f783e3579"}','{"definition": "gdp", "mu": 0.25}','2026-11-21T20:29:49+00:00',X'6E6F6973656420776172642D3720323032362F30332F3031','360330ab03063fd91675bff68456d7d63d2535ffaf3f6353a82ca111e9b03a00','2026-11-21T20:29:49+00:00');
INSERT INTO "covdp_releases" VALUES('eb2e8d5ecedadc712b6427438eab31b4c47f582578c0ce05bbfded296bed7eb7','ward-7 ','{"descriptor": "oct5"}','monday','{"ill": "7d4c90d58eb53c8695b0caa8ddac83b2964b8c0c60f3fa882ecd9ec15b2ec4b8", "well": "32a667350a89aa34bc9f408b179568f3fd5f9b3dc7c3011b18c2e534c1101f99"}','{"definition": "gdp", "mu": 0.75}','2026-11-21T20:29:49+00:00',X'6E6F6973656420776172642D3720206D6F6E646179','5ccc3c58287b084f874077e029595e01694301b6dfadb81379990a768feb56c0','2026-11-21T20:29:49+00:00');
INSERT INTO "covdp_releases" VALUES('148782cc60feaef69d0e5247110857b388f9ac3b5bc3476cede0eec243cb339f','breast','{"descriptor": "oct5"}','monday','{"ill": "0f220472af1dfc8dc6ad2bb088bda62aff67ff6a137f3ece6f41fb7b0e76bd0a", "well": "a4522bb413fbc845935962ebcb05e242990ca40a6fd30ff5b9e4dc3245602f85"}','{"definition": "zcdp", "rho": 0.1}','2026-11-21T20:29:49+00:00',X'6E6F6973656420627265617374206D6F6E646179','4050b765933dbb15255d0a3d7e15da7651b47df955ba9e7e3d9bb306d9557cf0','2026-11-21T20:29:49+00:00');
INSERT INTO "covdp_releases" VALUES('f706bb3354991c4652520b2b608e723fefd76bfd04b941d32ef59d473bf1b26f',' breast','{"descriptor": "oct5"}','monday','{"ill": "564d0ead38adc27b18a6cee3167e2174d3022562ec124aa7b1c8fd15f0b7a8d6", "well": "728b9feab59ba20f769f26b952f078b2f78d5c2fd2787d37952bb2c1feecc300"}','{"definition": "gdp", "mu": 0.1}','2026-11-21T20:29:49+00:00',X'6E6F697365642020627265617374206D6F6E646179','80417cd73503663944076830c57b6dbc5a8f626c459092d72e65851875c49e49','2026-11-21T20:29:49+00:00');
INSERT INTO "covdp_releases" VALUES('8d78fec3ff796dffcc118cc73cc22c2e055d0b25440b621d39cbac388d410c0e','wаrd-9','{"descriptor": "oct5"}','monday','{"ill": "9d4c79dbff3f5620d83226d60ea1b0bd1d791381dbf4a9e5758b562273468d56", "well": "48b761d349f2606a34924a5ef604daba8df2559717d6ec7f61f44548e0e3f6c7"}','{"definition": "gdp", "mu": 0.1}','2026-11-21T20:29:49+00:00',X'6E6F697365642077D0B072642D39206D6F6E646179','569a92969deff89ec7bace626603fd05ece8bc0f2b869ea50d3a03687f73c94e','2026-11-21T20:29:49+00:00');
CREATE INDEX ix_covdp_releases_population ON covdp_releases (population);
COMMIT;
