BEGIN TRANSACTION;
CREATE TABLE audit (
    sequence INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    author_actor_id TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    input TEXT,
    output TEXT,
    is_error INTEGER,
    duration_ms INTEGER,
    hash BLOB NOT NULL
) STRICT;
INSERT INTO "audit" VALUES(1,'gffx','ToolCallRequested','call_b6fea051_2_1','runCommand','ann','2026-11-15T19:30:57.186Z','{"command":"echo ran >> ran-1"}',NULL,NULL,NULL,X'128CAD3789E803227A8DA0A7AC75BEE8BCE0685025BE87D919D16FE5EA73C8BF');
INSERT INTO "audit" VALUES(2,'gffx','ToolCallCompleted','call_b6fea051_2_1','runCommand','ann','2026-11-15T19:30:57.398Z',NULL,'{"exitCode":0,"output":""}',0,0,X'C5FB80A1D71937704A1BD284B68C8057DFFBD4760754F86922E96A8AF87256CD');
INSERT INTO "audit" VALUES(3,'gffx','ToolCallRequested','call_b6fea051_5_1','runCommand','ann','2026-11-15T19:30:57.419Z','{"command":"echo ran >> ran-2"}',NULL,NULL,NULL,X'0477FFDE7A3F045A1CEEFBDF5185E03B1350E516E897949C6D527527E03F905A');
CREATE TABLE children (
    mark TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    member TEXT NOT NULL,
    agent TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    pid_namespace TEXT NOT NULL,
    host TEXT NOT NULL,
    started_at TEXT NOT NULL,
    pid INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "counters" VALUES('question',10);
CREATE TABLE envelopes (
    session_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,             -- gapless within a session, in commit order
    body TEXT NOT NULL,                    -- the whole envelope as JSON
    PRIMARY KEY (session_id, sequence)
) STRICT, WITHOUT ROWID;
INSERT INTO "envelopes" VALUES('hjw5',1,'{"session_id":"hjw5","timestamp":"2026-11-15T19:31:02.867Z","source":"mira","target":"you","payload_type":"clarification","version":"1.0","payload":{"questions":[],"status":"clear","intent_summary":"Coupons."}}');
INSERT INTO "envelopes" VALUES('psbn',1,'{"session_id":"psbn","timestamp":"2026-11-15T19:30:59.621Z","source":"mira","target":"you","payload_type":"clarification","version":"1.0","payload":{"questions":[],"status":"clear","intent_summary":"Coupons."}}');
INSERT INTO "envelopes" VALUES('psbn',2,'{"session_id":"psbn","timestamp":"2026-11-15T19:30:59.684Z","source":"mira","target":"coterie","payload_type":"plan","version":"1.0","payload":{"tasks":[{"task_id":"model","description":"Coupon model","dependencies":[],"expected_outputs":["model.py"],"status":"pending","risks":[]},{"task_id":"rules","description":"Price rules","dependencies":[],"expected_outputs":["rules.py"],"status":"pending","risks":["money"]},{"task_id":"form","description":"Form never-works","dependencies":["model","rules"],"expected_outputs":["form.py"],"status":"pending","risks":[]}]}}');
INSERT INTO "envelopes" VALUES('psbn',3,'{"session_id":"psbn","timestamp":"2026-11-15T19:30:59.684Z","source":"coterie","target":"coterie","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T1","task_id":"model","status":"pending","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:59.684Z","event":"created","message":""}],"reason":""},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('psbn',4,'{"session_id":"psbn","timestamp":"2026-11-15T19:30:59.684Z","source":"coterie","target":"coterie","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T2","task_id":"rules","status":"pending","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:59.684Z","event":"created","message":""}],"reason":""},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('psbn',5,'{"session_id":"psbn","timestamp":"2026-11-15T19:30:59.684Z","source":"coterie","target":"coterie","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","status":"pending","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:30:59.684Z","event":"created","message":""}],"reason":""},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',6,'{"session_id":"psbn","timestamp":"2026-11-15T19:30:59.732Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it.","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('psbn',7,'{"session_id":"psbn","timestamp":"2026-11-15T19:30:59.732Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T1","task_id":"model","owner":"wren","status":"in_progress","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:59.732Z","event":"in_progress","message":"instructed"}],"reason":"instructed"},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('psbn',8,'{"session_id":"psbn","timestamp":"2026-11-15T19:30:59.912Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"completed","outputs":["T1.py"],"evidence":["I ran it"],"issues":[],"next_actions":[]},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('psbn',9,'{"session_id":"psbn","timestamp":"2026-11-15T19:30:59.912Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T1","task_id":"model","owner":"wren","status":"awaiting_review","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:59.912Z","event":"awaiting_review","message":"wren reported"}],"reason":"wren reported"},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('psbn',10,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.052Z","source":"mira","target":"wren","payload_type":"review","version":"1.0","payload":{"decision":"approved","notes":"fine","requested_changes":[]},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('psbn',11,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.052Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T1","task_id":"model","owner":"wren","status":"done","dependencies":[],"history":[{"timestamp":"2026-11-15T19:31:00.052Z","event":"done","message":"approved, merged and green"}],"reason":"approved, merged and green"},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('psbn',12,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.107Z","source":"mira","target":"wren","payload_type":"instruction_proposal","version":"1.0","payload":{"summary":"Carefully.","open_questions":[],"risks":["rounding"],"draft_steps":["look"]},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('psbn',13,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.107Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T2","task_id":"rules","owner":"wren","status":"discussing","dependencies":[],"history":[{"timestamp":"2026-11-15T19:31:00.107Z","event":"discussing","message":"talked over"}],"reason":"talked over"},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('psbn',14,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.213Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"proposal","outputs":["I agree"],"evidence":[],"issues":[],"next_actions":["begin"]},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('psbn',15,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.213Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T2","task_id":"rules","owner":"wren","status":"discussing","dependencies":[],"history":[{"timestamp":"2026-11-15T19:31:00.213Z","event":"discussed","message":"wren answered"}],"reason":"talked over"},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('psbn',16,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.427Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it.","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('psbn',17,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.427Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T2","task_id":"rules","owner":"wren","status":"in_progress","dependencies":[],"history":[{"timestamp":"2026-11-15T19:31:00.427Z","event":"in_progress","message":"instructed"}],"reason":"instructed"},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('psbn',18,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.602Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"completed","outputs":["T2.py"],"evidence":["I ran it"],"issues":[],"next_actions":[]},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('psbn',19,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.602Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T2","task_id":"rules","owner":"wren","status":"awaiting_review","dependencies":[],"history":[{"timestamp":"2026-11-15T19:31:00.602Z","event":"awaiting_review","message":"wren reported"}],"reason":"wren reported"},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('psbn',20,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.758Z","source":"mira","target":"wren","payload_type":"review","version":"1.0","payload":{"decision":"approved","notes":"fine","requested_changes":[]},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('psbn',21,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.758Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T2","task_id":"rules","owner":"wren","status":"done","dependencies":[],"history":[{"timestamp":"2026-11-15T19:31:00.758Z","event":"done","message":"approved, merged and green"}],"reason":"approved, merged and green"},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('psbn',22,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.819Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it. never-works","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',23,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.819Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"in_progress","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:00.819Z","event":"in_progress","message":"instructed"}],"reason":"instructed"},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',24,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.979Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"blocked","outputs":[],"evidence":[],"issues":["no database here"],"next_actions":[]},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',25,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:00.979Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"blocked","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:00.979Z","event":"blocked","message":"no database here"}],"reason":"no database here"},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',26,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.037Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it. never-works","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',27,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.037Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"in_progress","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.037Z","event":"in_progress","message":"instructed anew"}],"reason":"instructed anew"},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',28,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.165Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"blocked","outputs":[],"evidence":[],"issues":["no database here"],"next_actions":[]},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',29,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.165Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"blocked","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.165Z","event":"blocked","message":"no database here"}],"reason":"no database here"},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',30,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.222Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it. never-works","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',31,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.222Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"in_progress","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.222Z","event":"in_progress","message":"instructed anew"}],"reason":"instructed anew"},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',32,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.358Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"blocked","outputs":[],"evidence":[],"issues":["no database here"],"next_actions":[]},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',33,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.358Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"blocked","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.358Z","event":"blocked","message":"no database here"}],"reason":"no database here"},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',34,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.360Z","source":"coterie","target":"mira","payload_type":"error","version":"1.0","payload":{"code":"retries_exceeded","message":"T3 was blocked 3 times: no database here","resolution_hint":"The manager plans anew, or you: coterie tickets reset."},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',35,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.360Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"error","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.360Z","event":"error","message":"no database here"}],"reason":"no database here"},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',36,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.407Z","source":"mira","target":"coterie","payload_type":"plan","version":"1.0","payload":{"tasks":[{"task_id":"model","description":"Coupon model","dependencies":[],"expected_outputs":["model.py"],"status":"pending","risks":[]},{"task_id":"rules","description":"Price rules","dependencies":[],"expected_outputs":["rules.py"],"status":"pending","risks":["money"]},{"task_id":"form","description":"Form never-works","dependencies":["model","rules"],"expected_outputs":["form.py"],"status":"pending","risks":[]}]}}');
INSERT INTO "envelopes" VALUES('psbn',37,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.407Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"error","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.407Z","event":"closed","message":"plan 2 does it anew"}],"closed_by":"T4","reason":"plan 2 does it anew"},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('psbn',38,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.407Z","source":"coterie","target":"coterie","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T4","task_id":"form","status":"pending","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.407Z","event":"created","message":""}],"reason":""},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',39,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.461Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it. never-works","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',40,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.461Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T4","task_id":"form","owner":"wren","status":"in_progress","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.461Z","event":"in_progress","message":"instructed"}],"reason":"instructed"},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',41,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.597Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"blocked","outputs":[],"evidence":[],"issues":["no database here"],"next_actions":[]},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',42,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.597Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T4","task_id":"form","owner":"wren","status":"blocked","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.597Z","event":"blocked","message":"no database here"}],"reason":"no database here"},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',43,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.665Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it. never-works","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',44,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.665Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T4","task_id":"form","owner":"wren","status":"in_progress","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.665Z","event":"in_progress","message":"instructed anew"}],"reason":"instructed anew"},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',45,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.793Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"blocked","outputs":[],"evidence":[],"issues":["no database here"],"next_actions":[]},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',46,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.793Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T4","task_id":"form","owner":"wren","status":"blocked","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.793Z","event":"blocked","message":"no database here"}],"reason":"no database here"},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',47,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.859Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it. never-works","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',48,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.859Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T4","task_id":"form","owner":"wren","status":"in_progress","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.859Z","event":"in_progress","message":"instructed anew"}],"reason":"instructed anew"},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',49,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.994Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"blocked","outputs":[],"evidence":[],"issues":["no database here"],"next_actions":[]},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',50,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.994Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T4","task_id":"form","owner":"wren","status":"blocked","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.994Z","event":"blocked","message":"no database here"}],"reason":"no database here"},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',51,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.995Z","source":"coterie","target":"mira","payload_type":"error","version":"1.0","payload":{"code":"retries_exceeded","message":"T4 was blocked 3 times: no database here","resolution_hint":"The manager plans anew, or you: coterie tickets reset."},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',52,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:01.995Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T4","task_id":"form","owner":"wren","status":"error","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:01.995Z","event":"error","message":"no database here"}],"reason":"no database here"},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',53,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.072Z","source":"mira","target":"coterie","payload_type":"plan","version":"1.0","payload":{"tasks":[{"task_id":"model","description":"Coupon model","dependencies":[],"expected_outputs":["model.py"],"status":"pending","risks":[]},{"task_id":"rules","description":"Price rules","dependencies":[],"expected_outputs":["rules.py"],"status":"pending","risks":["money"]},{"task_id":"form","description":"Form never-works","dependencies":["model","rules"],"expected_outputs":["form.py"],"status":"pending","risks":[]}]}}');
INSERT INTO "envelopes" VALUES('psbn',54,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.072Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T4","task_id":"form","owner":"wren","status":"error","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:02.072Z","event":"closed","message":"plan 3 does it anew"}],"closed_by":"T5","reason":"plan 3 does it anew"},"ticket_id":"T4"}');
INSERT INTO "envelopes" VALUES('psbn',55,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.072Z","source":"coterie","target":"coterie","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T5","task_id":"form","status":"pending","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:02.072Z","event":"created","message":""}],"reason":""},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',56,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.147Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it. never-works","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',57,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.147Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T5","task_id":"form","owner":"wren","status":"in_progress","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:02.147Z","event":"in_progress","message":"instructed"}],"reason":"instructed"},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',58,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.339Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"blocked","outputs":[],"evidence":[],"issues":["no database here"],"next_actions":[]},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',59,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.339Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T5","task_id":"form","owner":"wren","status":"blocked","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:02.339Z","event":"blocked","message":"no database here"}],"reason":"no database here"},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',60,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.402Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it. never-works","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',61,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.402Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T5","task_id":"form","owner":"wren","status":"in_progress","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:02.402Z","event":"in_progress","message":"instructed anew"}],"reason":"instructed anew"},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',62,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.549Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"blocked","outputs":[],"evidence":[],"issues":["no database here"],"next_actions":[]},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',63,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.549Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T5","task_id":"form","owner":"wren","status":"blocked","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:02.549Z","event":"blocked","message":"no database here"}],"reason":"no database here"},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',64,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.619Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it. never-works","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',65,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.619Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T5","task_id":"form","owner":"wren","status":"in_progress","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:02.619Z","event":"in_progress","message":"instructed anew"}],"reason":"instructed anew"},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',66,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.770Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"blocked","outputs":[],"evidence":[],"issues":["no database here"],"next_actions":[]},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',67,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.770Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T5","task_id":"form","owner":"wren","status":"blocked","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:02.770Z","event":"blocked","message":"no database here"}],"reason":"no database here"},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',68,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.772Z","source":"coterie","target":"mira","payload_type":"error","version":"1.0","payload":{"code":"retries_exceeded","message":"T5 was blocked 3 times: no database here","resolution_hint":"The manager plans anew, or you: coterie tickets reset."},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('psbn',69,'{"session_id":"psbn","timestamp":"2026-11-15T19:31:02.772Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T5","task_id":"form","owner":"wren","status":"error","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:31:02.772Z","event":"error","message":"no database here"}],"reason":"no database here"},"ticket_id":"T5"}');
INSERT INTO "envelopes" VALUES('ydyc',1,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:57.703Z","source":"mira","target":"you","payload_type":"clarification","version":"1.0","payload":{"questions":[],"status":"clear","intent_summary":"Coupons."}}');
INSERT INTO "envelopes" VALUES('ydyc',2,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:57.825Z","source":"mira","target":"coterie","payload_type":"plan","version":"1.0","payload":{"tasks":[{"task_id":"model","description":"Coupon model","dependencies":[],"expected_outputs":["model.py"],"status":"pending","risks":[]},{"task_id":"rules","description":"Price rules","dependencies":[],"expected_outputs":["rules.py"],"status":"pending","risks":["money"]},{"task_id":"form","description":"Form sent-back looked-at","dependencies":["model","rules"],"expected_outputs":["form.py"],"status":"pending","risks":[]}]}}');
INSERT INTO "envelopes" VALUES('ydyc',3,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:57.825Z","source":"coterie","target":"coterie","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T1","task_id":"model","status":"pending","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:57.825Z","event":"created","message":""}],"reason":""},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('ydyc',4,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:57.825Z","source":"coterie","target":"coterie","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T2","task_id":"rules","status":"pending","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:57.825Z","event":"created","message":""}],"reason":""},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('ydyc',5,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:57.825Z","source":"coterie","target":"coterie","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","status":"pending","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:30:57.825Z","event":"created","message":""}],"reason":""},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('ydyc',6,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:57.913Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it.","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('ydyc',7,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:57.913Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T1","task_id":"model","owner":"wren","status":"in_progress","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:57.913Z","event":"in_progress","message":"instructed"}],"reason":"instructed"},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('ydyc',8,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.132Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"completed","outputs":["T1.py"],"evidence":["I ran it"],"issues":[],"next_actions":[]},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('ydyc',9,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.132Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T1","task_id":"model","owner":"wren","status":"awaiting_review","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:58.132Z","event":"awaiting_review","message":"wren reported"}],"reason":"wren reported"},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('ydyc',10,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.291Z","source":"mira","target":"wren","payload_type":"review","version":"1.0","payload":{"decision":"approved","notes":"fine","requested_changes":[]},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('ydyc',11,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.291Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T1","task_id":"model","owner":"wren","status":"done","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:58.291Z","event":"done","message":"approved, merged and green"}],"reason":"approved, merged and green"},"ticket_id":"T1"}');
INSERT INTO "envelopes" VALUES('ydyc',12,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.350Z","source":"mira","target":"wren","payload_type":"instruction_proposal","version":"1.0","payload":{"summary":"Carefully.","open_questions":[],"risks":["rounding"],"draft_steps":["look"]},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('ydyc',13,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.350Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T2","task_id":"rules","owner":"wren","status":"discussing","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:58.350Z","event":"discussing","message":"talked over"}],"reason":"talked over"},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('ydyc',14,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.456Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"proposal","outputs":["I agree"],"evidence":[],"issues":[],"next_actions":["begin"]},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('ydyc',15,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.456Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T2","task_id":"rules","owner":"wren","status":"discussing","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:58.456Z","event":"discussed","message":"wren answered"}],"reason":"talked over"},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('ydyc',16,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.516Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it.","steps":["open an editor"],"resources":[],"acceptance_criteria":[]},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('ydyc',17,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.516Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T2","task_id":"rules","owner":"wren","status":"in_progress","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:58.516Z","event":"in_progress","message":"instructed"}],"reason":"instructed"},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('ydyc',18,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.672Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"completed","outputs":["T2.py"],"evidence":["I ran it"],"issues":[],"next_actions":[]},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('ydyc',19,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.672Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T2","task_id":"rules","owner":"wren","status":"awaiting_review","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:58.672Z","event":"awaiting_review","message":"wren reported"}],"reason":"wren reported"},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('ydyc',20,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.827Z","source":"mira","target":"wren","payload_type":"review","version":"1.0","payload":{"decision":"approved","notes":"fine","requested_changes":[]},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('ydyc',21,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.827Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T2","task_id":"rules","owner":"wren","status":"done","dependencies":[],"history":[{"timestamp":"2026-11-15T19:30:58.827Z","event":"done","message":"approved, merged and green"}],"reason":"approved, merged and green"},"ticket_id":"T2"}');
INSERT INTO "envelopes" VALUES('ydyc',22,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.877Z","source":"mira","target":"wren","payload_type":"instruction","version":"1.0","payload":{"summary":"Write it.","steps":["open an editor"],"resources":[],"acceptance_criteria":[{"text":"looks right on a phone"}]},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('ydyc',23,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:58.877Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"in_progress","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:30:58.877Z","event":"in_progress","message":"instructed"}],"reason":"instructed"},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('ydyc',24,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:59.050Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"completed","outputs":["form.py"],"evidence":["I ran it"],"issues":[],"next_actions":[]},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('ydyc',25,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:59.050Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"awaiting_review","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:30:59.050Z","event":"awaiting_review","message":"wren reported"}],"reason":"wren reported"},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('ydyc',26,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:59.143Z","source":"mira","target":"wren","payload_type":"review","version":"1.0","payload":{"decision":"changes_requested","notes":"","requested_changes":["missing error path"]},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('ydyc',27,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:59.143Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"in_progress","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:30:59.143Z","event":"in_progress","message":"missing error path"}],"reason":"missing error path"},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('ydyc',28,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:59.331Z","source":"wren","target":"mira","payload_type":"report","version":"1.0","payload":{"status":"completed","outputs":["form.py"],"evidence":["mended"],"issues":[],"next_actions":[]},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('ydyc',29,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:59.331Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"awaiting_review","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:30:59.331Z","event":"awaiting_review","message":"wren reported"}],"reason":"wren reported"},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('ydyc',30,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:59.535Z","source":"mira","target":"wren","payload_type":"review","version":"1.0","payload":{"decision":"approved","notes":"fine","requested_changes":[]},"ticket_id":"T3"}');
INSERT INTO "envelopes" VALUES('ydyc',31,'{"session_id":"ydyc","timestamp":"2026-11-15T19:30:59.535Z","source":"coterie","target":"wren","payload_type":"ticket","version":"1.0","payload":{"ticket_id":"T3","task_id":"form","owner":"wren","status":"done","dependencies":["T1","T2"],"history":[{"timestamp":"2026-11-15T19:30:59.535Z","event":"done","message":"approved, merged and green"}],"reason":"approved, merged and green"},"ticket_id":"T3"}');
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY,          -- gapless, so that a lost tail can be seen
    task_id TEXT NOT NULL,
    type TEXT NOT NULL,
    at TEXT NOT NULL,
    data TEXT NOT NULL,                    -- the whole event as JSON
    hash BLOB NOT NULL                     -- over the previous row's hash and this row
) STRICT;
INSERT INTO "events" VALUES(1,'y7uw','TaskCreated','2026-11-15T19:30:51.796Z','{"task_id":"y7uw","at":"2026-11-15T19:30:51.796Z","type":"TaskCreated","session_id":"y7uw","parent_id":null,"workflow":"chat","workflow_version":1,"goal":"hello","author":"you","team":{"name":"pair","workflow":"chat","members":[{"id":"ada","name":"ada","displayName":"Ada","role":"","type":"ai","order":1,"agentConfigId":"ada","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{"MOOD":""},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null},{"id":"rex","name":"rex","displayName":"Rex","role":"","type":"ai","order":2,"agentConfigId":"rex","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null}],"teamInstruction":null,"permissions":null,"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"contextMessageCount":20,"contextCharacters":40000},"team_file":"/srv/shop/.coterie/teams/pair/team.json","caps":{"max_turns":null,"max_rounds":1,"yes":false,"floor":"end"},"scheduler":{"concurrency":3,"retries":2,"rework":3,"replans":2,"clarifications":3,"checks":[],"time_limits":{"work":60.0,"manager":30.0,"check":10.0},"alerts":{"stalled":15.0},"sign":false},"rehearsal":false,"script":null}',X'5AB93472C0E75778CA88DA763BD4CC0A2AE8D2F976955AB1BF6A2ECE58DC35AE');
INSERT INTO "events" VALUES(2,'y7uw','TaskStarted','2026-11-15T19:30:51.803Z','{"task_id":"y7uw","at":"2026-11-15T19:30:51.803Z","type":"TaskStarted"}',X'FD4F4FF637BCC6EE78D72A2A717135D742B48BE8751D60B3D25D841D10497C25');
INSERT INTO "events" VALUES(3,'y7uw','TaskCompleted','2026-11-15T19:30:51.936Z','{"task_id":"y7uw","at":"2026-11-15T19:30:51.936Z","type":"TaskCompleted","reason":"max_rounds","summary":"rex heard \"ada heard ''hello''\""}',X'0F9FC400ECB2B83C013911165C20F76FBE65271925CACE6A31394D17B1D52E65');
INSERT INTO "events" VALUES(4,'nc7h','TaskCreated','2026-11-15T19:30:51.946Z','{"task_id":"nc7h","at":"2026-11-15T19:30:51.946Z","type":"TaskCreated","session_id":"nc7h","parent_id":null,"workflow":"chat","workflow_version":1,"goal":"ada-hangs, please","author":"you","team":{"name":"pair","workflow":"chat","members":[{"id":"ada","name":"ada","displayName":"Ada","role":"","type":"ai","order":1,"agentConfigId":"ada","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{"MOOD":""},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null},{"id":"rex","name":"rex","displayName":"Rex","role":"","type":"ai","order":2,"agentConfigId":"rex","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null}],"teamInstruction":null,"permissions":null,"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"contextMessageCount":20,"contextCharacters":40000},"team_file":"/srv/shop/.coterie/teams/pair/team.json","caps":{"max_turns":null,"max_rounds":1,"yes":false,"floor":"ask"},"scheduler":{"concurrency":3,"retries":2,"rework":3,"replans":2,"clarifications":3,"checks":[],"time_limits":{"work":60.0,"manager":30.0,"check":10.0},"alerts":{"stalled":15.0},"sign":false},"rehearsal":false,"script":null}',X'A41CD5B47B30D44994735C47488C5B1BCC2BFFDDB83204510758AE0A0D6A16F7');
INSERT INTO "events" VALUES(5,'nc7h','TaskStarted','2026-11-15T19:30:51.952Z','{"task_id":"nc7h","at":"2026-11-15T19:30:51.952Z","type":"TaskStarted"}',X'6E8F95617DF83FC9825110FDB7A432A7217BA0D70219F8F7B658B6BE421BD214');
INSERT INTO "events" VALUES(6,'nc7h','UserInteractionRequested','2026-11-15T19:30:52.984Z','{"task_id":"nc7h","at":"2026-11-15T19:30:52.984Z","type":"UserInteractionRequested","interaction":{"interactionId":"q1","taskId":"nc7h","authorActorId":"you","kind":"Input","purpose":"request_info","display":{"title":"Your turn, You","description":"Say something, or /end to end the conversation.","content":"","contentKind":"PlainText"},"options":[],"validation":{"regex":null,"required":true,"meaning":"","example":""},"risk":null}}',X'0BC758DCA839D8F9C821024CB34E26B846DBA41D112AE93C7992CE59FD9A49FE');
INSERT INTO "events" VALUES(7,'c4gn','TaskCreated','2026-11-15T19:30:52.999Z','{"task_id":"c4gn","at":"2026-11-15T19:30:52.999Z","type":"TaskCreated","session_id":"c4gn","parent_id":null,"workflow":"chat","workflow_version":1,"goal":"ada-hangs, please","author":"you","team":{"name":"pair","workflow":"chat","members":[{"id":"ada","name":"ada","displayName":"Ada","role":"","type":"ai","order":1,"agentConfigId":"ada","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{"MOOD":""},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null},{"id":"rex","name":"rex","displayName":"Rex","role":"","type":"ai","order":2,"agentConfigId":"rex","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null}],"teamInstruction":null,"permissions":null,"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"contextMessageCount":20,"contextCharacters":40000},"team_file":"/srv/shop/.coterie/teams/pair/team.json","caps":{"max_turns":null,"max_rounds":1,"yes":false,"floor":"ask"},"scheduler":{"concurrency":3,"retries":2,"rework":3,"replans":2,"clarifications":3,"checks":[],"time_limits":{"work":60.0,"manager":30.0,"check":10.0},"alerts":{"stalled":15.0},"sign":false},"rehearsal":false,"script":null}',X'3A7BF44C89CD11DB2FA1E76B08187F5F996DDDA243A874CD70F23F85DDD084C3');
INSERT INTO "events" VALUES(8,'c4gn','TaskStarted','2026-11-15T19:30:53.004Z','{"task_id":"c4gn","at":"2026-11-15T19:30:53.004Z","type":"TaskStarted"}',X'BAC73A3987869E1CD93FB4E7910A0A63FD88B44CA9E33469887BDE68A51AD533');
INSERT INTO "events" VALUES(9,'c4gn','UserInteractionRequested','2026-11-15T19:30:54.037Z','{"task_id":"c4gn","at":"2026-11-15T19:30:54.037Z","type":"UserInteractionRequested","interaction":{"interactionId":"q2","taskId":"c4gn","authorActorId":"you","kind":"Input","purpose":"request_info","display":{"title":"Your turn, You","description":"Say something, or /end to end the conversation.","content":"","contentKind":"PlainText"},"options":[],"validation":{"regex":null,"required":true,"meaning":"","example":""},"risk":null}}',X'8E8E42D11C42748AD69CACDA4997D7EEF3AB7763B2E9D764F36BB13BBDF4306E');
INSERT INTO "events" VALUES(10,'c4gn','UserInteractionResponded','2026-11-15T19:30:54.048Z','{"task_id":"c4gn","at":"2026-11-15T19:30:54.048Z","type":"UserInteractionResponded","response":{"interactionId":"q2","taskId":"c4gn","authorActorId":"you","selectedOptionId":null,"inputValue":"@rex rex-hangs, what now?","comment":null}}',X'9368BFA10528D85D89FEEFDF5FE6B1E43C60B01F23CF3D2406EBED3D8F0D2DE1');
INSERT INTO "events" VALUES(11,'xjgr','TaskCreated','2026-11-15T19:30:54.581Z','{"task_id":"xjgr","at":"2026-11-15T19:30:54.581Z","type":"TaskCreated","session_id":"xjgr","parent_id":null,"workflow":"chat","workflow_version":1,"goal":"hello","author":"max","team":{"name":"people","workflow":"chat","members":[{"id":"ada","name":"ada","displayName":"Ada","role":"","type":"ai","order":1,"agentConfigId":"ada","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null},{"id":"max","name":"max","displayName":"Max","role":"","type":"human","order":2,"agentConfigId":null,"systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null}],"teamInstruction":null,"permissions":null,"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"contextMessageCount":20,"contextCharacters":40000},"team_file":"/srv/shop/.coterie/teams/people/team.json","caps":{"max_turns":3,"max_rounds":1,"yes":false,"floor":"end"},"scheduler":{"concurrency":3,"retries":2,"rework":3,"replans":2,"clarifications":3,"checks":[],"time_limits":{"work":60.0,"manager":30.0,"check":10.0},"alerts":{"stalled":15.0},"sign":false},"rehearsal":false,"script":null}',X'87D4123AA60FD5A7D068A76DCED76D2B3ED5E8C9BA642903ACFF431298157157');
INSERT INTO "events" VALUES(12,'xjgr','TaskStarted','2026-11-15T19:30:54.585Z','{"task_id":"xjgr","at":"2026-11-15T19:30:54.585Z","type":"TaskStarted"}',X'BBEB772A153407CA0B25EA9B9DD1E55A0C00B3BE80871BA692CD9FFC1CBF658B');
INSERT INTO "events" VALUES(13,'xjgr','UserInteractionRequested','2026-11-15T19:30:54.657Z','{"task_id":"xjgr","at":"2026-11-15T19:30:54.657Z","type":"UserInteractionRequested","interaction":{"interactionId":"q3","taskId":"xjgr","authorActorId":"max","kind":"Input","purpose":"request_info","display":{"title":"Your turn, Max","description":"Say something, or /end to end the conversation.","content":"ada heard ''hello''","contentKind":"PlainText"},"options":[],"validation":{"regex":null,"required":true,"meaning":"","example":""},"risk":null}}',X'1DED3C47511FF1138C06A098F5C95475FBEEF0942C3715A061B4BFA5728DFC8A');
INSERT INTO "events" VALUES(14,'g4hr','TaskCreated','2026-11-15T19:30:54.665Z','{"task_id":"g4hr","at":"2026-11-15T19:30:54.665Z","type":"TaskCreated","session_id":"g4hr","parent_id":null,"workflow":"chat","workflow_version":1,"goal":"hello","author":"you","team":{"name":"poor","workflow":"chat","members":[{"id":"ada","name":"ada","displayName":"Ada","role":"","type":"ai","order":1,"agentConfigId":"ada","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null},{"id":"rex","name":"rex","displayName":"Rex","role":"","type":"ai","order":2,"agentConfigId":"rex","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null}],"teamInstruction":null,"permissions":null,"budget":{"tokens":null,"usd":null,"turns":2,"perDay":{"tokens":null,"usd":null,"turns":null}},"contextMessageCount":20,"contextCharacters":40000},"team_file":"/srv/shop/.coterie/teams/poor/team.json","caps":{"max_turns":null,"max_rounds":2,"yes":false,"floor":"end"},"scheduler":{"concurrency":3,"retries":2,"rework":3,"replans":2,"clarifications":3,"checks":[],"time_limits":{"work":60.0,"manager":30.0,"check":10.0},"alerts":{"stalled":15.0},"sign":false},"rehearsal":false,"script":null}',X'9FF6BBE4C0B09F596E3D8D2978343FA974EAEBE5D651ABDC3E941A46B3E273BB');
INSERT INTO "events" VALUES(15,'g4hr','TaskStarted','2026-11-15T19:30:54.668Z','{"task_id":"g4hr","at":"2026-11-15T19:30:54.668Z","type":"TaskStarted"}',X'04DAC5BD7D4A1D864BF56B6107322D78AEC577DDACFCB2287FFF989A4A8C3EE8');
INSERT INTO "events" VALUES(16,'g4hr','UserInteractionRequested','2026-11-15T19:30:54.817Z','{"task_id":"g4hr","at":"2026-11-15T19:30:54.817Z","type":"UserInteractionRequested","interaction":{"interactionId":"q4","taskId":"g4hr","authorActorId":"coterie","kind":"Input","purpose":"choose_strategy","display":{"title":"g4hr used 2 of 2 turns","description":"The next call was not made. How much more, such as +5, or stop?","content":"","contentKind":"PlainText"},"options":[],"validation":{"regex":"\\s*(stop|\\+?\\s*\\$?\\d+(\\.\\d+)?\\s*[kKmM]?)\\s*","required":true,"meaning":"an amount such as +5, or stop","example":"+5"},"risk":null}}',X'EA68DD94ABD937E34C6BC6F5275F975EFC14E57C3CF52D66CF3C439709B64EDC');
INSERT INTO "events" VALUES(17,'gffx','TaskCreated','2026-11-15T19:30:54.826Z','{"task_id":"gffx","at":"2026-11-15T19:30:54.826Z","type":"TaskCreated","session_id":"gffx","parent_id":null,"workflow":"solo","workflow_version":1,"goal":"Do all of it.","author":"you","team":{"name":"solo","workflow":"chat","members":[{"id":"ann","name":"ann","displayName":"Ann","role":"","type":"ai","order":1,"agentConfigId":"builtin","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null}],"teamInstruction":null,"permissions":null,"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"contextMessageCount":20,"contextCharacters":40000},"team_file":"/srv/shop/.coterie/teams/solo/team.json","caps":{"max_turns":null,"max_rounds":1,"yes":false,"floor":"end"},"scheduler":{"concurrency":3,"retries":2,"rework":3,"replans":2,"clarifications":3,"checks":[],"time_limits":{"work":60.0,"manager":30.0,"check":10.0},"alerts":{"stalled":15.0},"sign":false},"rehearsal":true,"script":null}',X'EC758B1DAFD01597237809FCD5761861DF048EBAF4D185278EABBE2A9DBE48C1');
INSERT INTO "events" VALUES(18,'gffx','TaskStarted','2026-11-15T19:30:54.830Z','{"task_id":"gffx","at":"2026-11-15T19:30:54.830Z","type":"TaskStarted"}',X'19A6DA79618BCD7EE50378C509142113C31C36F9C6803F4E671BFB63B1479BB9');
INSERT INTO "events" VALUES(19,'gffx','UserInteractionRequested','2026-11-15T19:30:57.240Z','{"task_id":"gffx","at":"2026-11-15T19:30:57.240Z","type":"UserInteractionRequested","interaction":{"interactionId":"q5","taskId":"gffx","authorActorId":"ann","kind":"Confirm","purpose":"confirm_risky_action","display":{"title":"Run a command","description":"","content":"echo ran >> ran-1","contentKind":"PlainText"},"options":[{"id":"approve","label":"once","style":"primary","default":false,"detail":""},{"id":"reject","label":"deny","style":"danger","default":false,"detail":"--say tells ann why"},{"id":"task","label":"this task","style":"plain","default":false,"detail":"exactly this command, ann only, until gffx ends"}],"validation":{"regex":null,"required":false,"meaning":"","example":""},"risk":{"tool":"runCommand","cwd":"/srv/shop","command":"echo ran >> ran-1","why":"","said":"Next.","note":"Held by bubblewrap: writes only in the work folder, its own home and /tmp; sees neither your home folder nor your other processes; the network is open."}}}',X'6B14EF2EDA111F132FF117FE1228169303DA0BCE61765B946DDC57F0A1677BD5');
INSERT INTO "events" VALUES(20,'gffx','UserInteractionResponded','2026-11-15T19:30:57.286Z','{"task_id":"gffx","at":"2026-11-15T19:30:57.286Z","type":"UserInteractionResponded","response":{"interactionId":"q5","taskId":"gffx","authorActorId":"you","selectedOptionId":"approve","inputValue":null,"comment":null}}',X'4903FBFBBABB505AFC9FFC34E55E373B5B971E2DD9A613327B92A2566616D843');
INSERT INTO "events" VALUES(21,'gffx','UserInteractionRequested','2026-11-15T19:30:57.423Z','{"task_id":"gffx","at":"2026-11-15T19:30:57.423Z","type":"UserInteractionRequested","interaction":{"interactionId":"q6","taskId":"gffx","authorActorId":"ann","kind":"Confirm","purpose":"confirm_risky_action","display":{"title":"Run a command","description":"","content":"echo ran >> ran-2","contentKind":"PlainText"},"options":[{"id":"approve","label":"once","style":"primary","default":false,"detail":""},{"id":"reject","label":"deny","style":"danger","default":false,"detail":"--say tells ann why"},{"id":"task","label":"this task","style":"plain","default":false,"detail":"exactly this command, ann only, until gffx ends"}],"validation":{"regex":null,"required":false,"meaning":"","example":""},"risk":{"tool":"runCommand","cwd":"/srv/shop","command":"echo ran >> ran-2","why":"","said":"Next.","note":"Held by bubblewrap: writes only in the work folder, its own home and /tmp; sees neither your home folder nor your other processes; the network is open."}}}',X'0F729306197EEC82664A3D4A33D8EF5CF4E11BC21DC273031357EBBD92C9A969');
INSERT INTO "events" VALUES(22,'ydyc','TaskCreated','2026-11-15T19:30:57.550Z','{"task_id":"ydyc","at":"2026-11-15T19:30:57.550Z","type":"TaskCreated","session_id":"ydyc","parent_id":null,"workflow":"tickets","workflow_version":1,"goal":"Coupons, looked-at sent-back","author":"you","team":{"name":"crew","workflow":"chat","members":[{"id":"mira","name":"mira","displayName":"Mira","role":"manager","type":"ai","order":1,"agentConfigId":"mira","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null},{"id":"wren","name":"wren","displayName":"Wren","role":"","type":"ai","order":2,"agentConfigId":"mira","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null}],"teamInstruction":null,"permissions":null,"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"contextMessageCount":20,"contextCharacters":40000},"team_file":"/srv/shop/.coterie/teams/crew/team.json","caps":{"max_turns":null,"max_rounds":1,"yes":false,"floor":"end"},"scheduler":{"concurrency":1,"retries":2,"rework":3,"replans":2,"clarifications":3,"checks":[],"time_limits":{"work":60.0,"manager":30.0,"check":10.0},"alerts":{"stalled":15.0},"sign":false},"rehearsal":false,"script":null}',X'7427D175AA7306C7442B726AABC7CB68F2704CCBCF1CC93689F3E5236A505F19');
INSERT INTO "events" VALUES(23,'ydyc','TaskStarted','2026-11-15T19:30:57.568Z','{"task_id":"ydyc","at":"2026-11-15T19:30:57.568Z","type":"TaskStarted"}',X'896C22AA477FE00ABB01F457D0961A26B7B1B5347FF19D351639E44B398CE21A');
INSERT INTO "events" VALUES(24,'ydyc','UserInteractionRequested','2026-11-15T19:30:57.801Z','{"task_id":"ydyc","at":"2026-11-15T19:30:57.801Z","type":"UserInteractionRequested","interaction":{"interactionId":"q7","taskId":"ydyc","authorActorId":"mira","kind":"Select","purpose":"choose_strategy","display":{"title":"Plan with 3 tickets","description":"Approve it, or say what to change (--say).","content":"model\n    Coupon model\nrules\n    Price rules\n    risk: money\nform  after model, rules\n    Form sent-back looked-at","contentKind":"PlainText"},"options":[{"id":"approve","label":"go","style":"primary","default":false,"detail":""},{"id":"change","label":"plan anew","style":"plain","default":false,"detail":"with what you say"},{"id":"stop","label":"stop and keep","style":"danger","default":false,"detail":""}],"validation":{"regex":null,"required":false,"meaning":"","example":""},"risk":null}}',X'B254A1C0FED8CFAABB1C3ED8896A3355B4024F574170876DC2EAF06745FAD784');
INSERT INTO "events" VALUES(25,'ydyc','UserInteractionResponded','2026-11-15T19:30:57.815Z','{"task_id":"ydyc","at":"2026-11-15T19:30:57.815Z","type":"UserInteractionResponded","response":{"interactionId":"q7","taskId":"ydyc","authorActorId":"you","selectedOptionId":"approve","inputValue":null,"comment":null}}',X'B5933E39950D2422A22251E19162F53CBB9F225CC84424DD1E1C99E14098ABFD');
INSERT INTO "events" VALUES(26,'ydyc','TaskCompleted','2026-11-15T19:30:59.548Z','{"task_id":"ydyc","at":"2026-11-15T19:30:59.548Z","type":"TaskCompleted","reason":"done","summary":"3 done"}',X'A95B3F7DBC63050705665C2FB0273F2EC59628BB23B63D1211F69F051878B981');
INSERT INTO "events" VALUES(27,'psbn','TaskCreated','2026-11-15T19:30:59.556Z','{"task_id":"psbn","at":"2026-11-15T19:30:59.556Z","type":"TaskCreated","session_id":"psbn","parent_id":null,"workflow":"tickets","workflow_version":1,"goal":"Coupons, never-works","author":"you","team":{"name":"crew","workflow":"chat","members":[{"id":"mira","name":"mira","displayName":"Mira","role":"manager","type":"ai","order":1,"agentConfigId":"mira","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null},{"id":"wren","name":"wren","displayName":"Wren","role":"","type":"ai","order":2,"agentConfigId":"mira","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null}],"teamInstruction":null,"permissions":null,"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"contextMessageCount":20,"contextCharacters":40000},"team_file":"/srv/shop/.coterie/teams/crew/team.json","caps":{"max_turns":null,"max_rounds":1,"yes":false,"floor":"end"},"scheduler":{"concurrency":1,"retries":2,"rework":3,"replans":2,"clarifications":3,"checks":[],"time_limits":{"work":60.0,"manager":30.0,"check":10.0},"alerts":{"stalled":15.0},"sign":false},"rehearsal":false,"script":null}',X'69591DCBEE1B1175FCF45F903076431F632609419448F45C582DF8C2E0D68805');
INSERT INTO "events" VALUES(28,'psbn','TaskStarted','2026-11-15T19:30:59.559Z','{"task_id":"psbn","at":"2026-11-15T19:30:59.559Z","type":"TaskStarted"}',X'CF62B3A665E11AD337C144803E64A09FB05702C1E2BA6E59B3CBCD672A45B8BA');
INSERT INTO "events" VALUES(29,'psbn','UserInteractionRequested','2026-11-15T19:30:59.671Z','{"task_id":"psbn","at":"2026-11-15T19:30:59.671Z","type":"UserInteractionRequested","interaction":{"interactionId":"q8","taskId":"psbn","authorActorId":"mira","kind":"Select","purpose":"choose_strategy","display":{"title":"Plan with 3 tickets","description":"Approve it, or say what to change (--say).","content":"model\n    Coupon model\nrules\n    Price rules\n    risk: money\nform  after model, rules\n    Form never-works","contentKind":"PlainText"},"options":[{"id":"approve","label":"go","style":"primary","default":false,"detail":""},{"id":"change","label":"plan anew","style":"plain","default":false,"detail":"with what you say"},{"id":"stop","label":"stop and keep","style":"danger","default":false,"detail":""}],"validation":{"regex":null,"required":false,"meaning":"","example":""},"risk":null}}',X'CC3D3C7C5B6865A79BB47EC10F1C1BF3DF098C733C29D9A17A348A7225078AF9');
INSERT INTO "events" VALUES(30,'psbn','UserInteractionResponded','2026-11-15T19:30:59.679Z','{"task_id":"psbn","at":"2026-11-15T19:30:59.679Z","type":"UserInteractionResponded","response":{"interactionId":"q8","taskId":"psbn","authorActorId":"you","selectedOptionId":"approve","inputValue":null,"comment":null}}',X'822BEAD65F7E274C84FBE8621E6CA159AAFB61D8A3A89D7A3BDA9D1B87812CD7');
INSERT INTO "events" VALUES(31,'psbn','UserInteractionRequested','2026-11-15T19:31:02.774Z','{"task_id":"psbn","at":"2026-11-15T19:31:02.774Z","type":"UserInteractionRequested","interaction":{"interactionId":"q9","taskId":"psbn","authorActorId":"coterie","kind":"Select","purpose":"choose_strategy","display":{"title":"T5 failed: Form never-works","description":"no database here","content":"","contentKind":"PlainText"},"options":[{"id":"reset","label":"try it again","style":"primary","default":false,"detail":"what was done so far stays in its folder"},{"id":"drop","label":"drop it, and what waits for it","style":"danger","default":false,"detail":""},{"id":"stop","label":"stop and keep","style":"plain","default":false,"detail":""}],"validation":{"regex":null,"required":false,"meaning":"","example":""},"risk":null}}',X'0ADB5F84697E6B1FEC4209BAC897803A7184537B4E984B84A03FCAB2A3886DE4');
INSERT INTO "events" VALUES(32,'hjw5','TaskCreated','2026-11-15T19:31:02.784Z','{"task_id":"hjw5","at":"2026-11-15T19:31:02.784Z","type":"TaskCreated","session_id":"hjw5","parent_id":null,"workflow":"tickets","workflow_version":1,"goal":"Coupons too","author":"you","team":{"name":"crew","workflow":"chat","members":[{"id":"mira","name":"mira","displayName":"Mira","role":"manager","type":"ai","order":1,"agentConfigId":"mira","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null},{"id":"wren","name":"wren","displayName":"Wren","role":"","type":"ai","order":2,"agentConfigId":"mira","systemInstruction":"","model":null,"workingDir":null,"executionDir":null,"work":"link","homeDir":null,"additionalArgs":[],"env":{},"capabilities":[],"supportsMultipleInstances":false,"metadata":{},"permissions":{"mode":"ask","allow":[],"deny":[]},"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"idleTimeoutMs":null,"timeoutMs":null,"quietAfterMs":null}],"teamInstruction":null,"permissions":null,"budget":{"tokens":null,"usd":null,"turns":null,"perDay":{"tokens":null,"usd":null,"turns":null}},"contextMessageCount":20,"contextCharacters":40000},"team_file":"/srv/shop/.coterie/teams/crew/team.json","caps":{"max_turns":null,"max_rounds":1,"yes":false,"floor":"end"},"scheduler":{"concurrency":1,"retries":2,"rework":3,"replans":2,"clarifications":3,"checks":[],"time_limits":{"work":60.0,"manager":30.0,"check":10.0},"alerts":{"stalled":15.0},"sign":false},"rehearsal":false,"script":null}',X'D37ED805387A30907F62900D8EECD1339C7DADCDDA82A5CC56B1A95F72D1D10F');
INSERT INTO "events" VALUES(33,'hjw5','TaskStarted','2026-11-15T19:31:02.788Z','{"task_id":"hjw5","at":"2026-11-15T19:31:02.788Z","type":"TaskStarted"}',X'61B5295B768DF796BE5538A161F8B84F1F467568D08C77B7939CB31C186BC8C2');
INSERT INTO "events" VALUES(34,'hjw5','UserInteractionRequested','2026-11-15T19:31:02.953Z','{"task_id":"hjw5","at":"2026-11-15T19:31:02.953Z","type":"UserInteractionRequested","interaction":{"interactionId":"q10","taskId":"hjw5","authorActorId":"mira","kind":"Select","purpose":"choose_strategy","display":{"title":"Plan with 3 tickets","description":"Approve it, or say what to change (--say).","content":"model\n    Coupon model\nrules\n    Price rules\n    risk: money\nform  after model, rules\n    Form","contentKind":"PlainText"},"options":[{"id":"approve","label":"go","style":"primary","default":false,"detail":""},{"id":"change","label":"plan anew","style":"plain","default":false,"detail":"with what you say"},{"id":"stop","label":"stop and keep","style":"danger","default":false,"detail":""}],"validation":{"regex":null,"required":false,"meaning":"","example":""},"risk":null}}',X'265009D4AB98300D97DE223AE4E7A54C901FAB11239A10F37C9B98C317A144FB');
CREATE TABLE leases (
    task_id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    token INTEGER NOT NULL,
    state TEXT NOT NULL                    -- running, reclaiming, parked
) STRICT, WITHOUT ROWID;
INSERT INTO "leases" VALUES('c4gn','d90b0cfa3b8c',1,'parked');
INSERT INTO "leases" VALUES('g4hr','d90b0cfa3b8c',1,'parked');
INSERT INTO "leases" VALUES('gffx','d90b0cfa3b8c',2,'parked');
INSERT INTO "leases" VALUES('hjw5','d90b0cfa3b8c',1,'parked');
INSERT INTO "leases" VALUES('nc7h','d90b0cfa3b8c',1,'parked');
INSERT INTO "leases" VALUES('psbn','d90b0cfa3b8c',2,'parked');
INSERT INTO "leases" VALUES('xjgr','d90b0cfa3b8c',1,'parked');
INSERT INTO "leases" VALUES('y7uw','d90b0cfa3b8c',1,'parked');
INSERT INTO "leases" VALUES('ydyc','d90b0cfa3b8c',2,'parked');
CREATE TABLE member_states (
    task_id TEXT NOT NULL,
    member TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    since TEXT NOT NULL,
    PRIMARY KEY (task_id, member)
) STRICT, WITHOUT ROWID;
CREATE TABLE messages (
    task_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    member TEXT NOT NULL,
    text TEXT NOT NULL,
    at TEXT NOT NULL,
    turn INTEGER NOT NULL,
    next TEXT,
    done INTEGER NOT NULL,
    PRIMARY KEY (task_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "messages" VALUES('c4gn',1,'you','ada-hangs, please','2026-11-15T19:30:52.999Z',0,NULL,0);
INSERT INTO "messages" VALUES('c4gn',2,'ada','','2026-11-15T19:30:54.034Z',1,NULL,0);
INSERT INTO "messages" VALUES('c4gn',3,'you','@rex rex-hangs, what now?','2026-11-15T19:30:54.052Z',2,'rex',0);
INSERT INTO "messages" VALUES('g4hr',1,'you','hello','2026-11-15T19:30:54.665Z',0,NULL,0);
INSERT INTO "messages" VALUES('g4hr',2,'ada','ada heard ''hello''','2026-11-15T19:30:54.734Z',1,NULL,0);
INSERT INTO "messages" VALUES('g4hr',3,'rex','rex heard "ada heard ''hello''"','2026-11-15T19:30:54.811Z',2,NULL,0);
INSERT INTO "messages" VALUES('gffx',1,'you','Do all of it.','2026-11-15T19:30:54.826Z',0,NULL,0);
INSERT INTO "messages" VALUES('hjw5',1,'you','Coupons too','2026-11-15T19:31:02.784Z',0,NULL,0);
INSERT INTO "messages" VALUES('hjw5',2,'mira','```json
{"status": "clear", "intent_summary": "Coupons."}
```','2026-11-15T19:31:02.867Z',1,NULL,0);
INSERT INTO "messages" VALUES('hjw5',3,'mira','```json
{"tasks": [{"task_id": "model", "description": "Coupon model", "dependencies": [], "expected_outputs": ["model.py"], "risks": []}, {"task_id": "rules", "description": "Price rules", "dependencies": [], "expected_outputs": ["rules.py"], "risks": ["money"]}, {"task_id": "form", "description": "Form", "dependencies": ["model", "rules"], "expected_outputs": ["form.py"], "risks": []}]}
```','2026-11-15T19:31:02.947Z',2,NULL,0);
INSERT INTO "messages" VALUES('nc7h',1,'you','ada-hangs, please','2026-11-15T19:30:51.946Z',0,NULL,0);
INSERT INTO "messages" VALUES('nc7h',2,'ada','','2026-11-15T19:30:52.981Z',1,NULL,0);
INSERT INTO "messages" VALUES('psbn',1,'you','Coupons, never-works','2026-11-15T19:30:59.556Z',0,NULL,0);
INSERT INTO "messages" VALUES('psbn',2,'mira','```json
{"status": "clear", "intent_summary": "Coupons."}
```','2026-11-15T19:30:59.620Z',1,NULL,0);
INSERT INTO "messages" VALUES('psbn',3,'mira','```json
{"tasks": [{"task_id": "model", "description": "Coupon model", "dependencies": [], "expected_outputs": ["model.py"], "risks": []}, {"task_id": "rules", "description": "Price rules", "dependencies": [], "expected_outputs": ["rules.py"], "risks": ["money"]}, {"task_id": "form", "description": "Form never-works", "dependencies": ["model", "rules"], "expected_outputs": ["form.py"], "risks": []}]}
```','2026-11-15T19:30:59.670Z',2,NULL,0);
INSERT INTO "messages" VALUES('psbn',4,'mira','```json
{"summary": "Write it.", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:30:59.732Z',5,NULL,0);
INSERT INTO "messages" VALUES('psbn',5,'wren','```json
{"status": "completed", "outputs": ["T1.py"], "evidence": ["I ran it"]}
```','2026-11-15T19:30:59.846Z',6,NULL,0);
INSERT INTO "messages" VALUES('psbn',6,'mira','```json
{"decision": "approved", "notes": "fine"}
```','2026-11-15T19:30:59.987Z',7,NULL,0);
INSERT INTO "messages" VALUES('psbn',7,'mira','```json
{"summary": "Carefully.", "risks": ["rounding"], "draft_steps": ["look"]}
```','2026-11-15T19:31:00.106Z',8,NULL,0);
INSERT INTO "messages" VALUES('psbn',8,'wren','```json
{"status": "proposal", "outputs": ["I agree"], "next_actions": ["begin"]}
```','2026-11-15T19:31:00.213Z',9,NULL,0);
INSERT INTO "messages" VALUES('psbn',9,'mira','```json
{"summary": "Write it.", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:31:00.427Z',10,NULL,0);
INSERT INTO "messages" VALUES('psbn',10,'wren','```json
{"status": "completed", "outputs": ["T2.py"], "evidence": ["I ran it"]}
```','2026-11-15T19:31:00.509Z',11,NULL,0);
INSERT INTO "messages" VALUES('psbn',11,'mira','```json
{"decision": "approved", "notes": "fine"}
```','2026-11-15T19:31:00.693Z',12,NULL,0);
INSERT INTO "messages" VALUES('psbn',12,'mira','```json
{"summary": "Write it. never-works", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:31:00.818Z',13,NULL,0);
INSERT INTO "messages" VALUES('psbn',13,'wren','```json
{"status": "blocked", "issues": ["no database here"]}
```','2026-11-15T19:31:00.922Z',14,NULL,0);
INSERT INTO "messages" VALUES('psbn',14,'mira','```json
{"summary": "Write it. never-works", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:31:01.037Z',15,NULL,0);
INSERT INTO "messages" VALUES('psbn',15,'wren','```json
{"status": "blocked", "issues": ["no database here"]}
```','2026-11-15T19:31:01.106Z',16,NULL,0);
INSERT INTO "messages" VALUES('psbn',16,'mira','```json
{"summary": "Write it. never-works", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:31:01.222Z',17,NULL,0);
INSERT INTO "messages" VALUES('psbn',17,'wren','```json
{"status": "blocked", "issues": ["no database here"]}
```','2026-11-15T19:31:01.303Z',18,NULL,0);
INSERT INTO "messages" VALUES('psbn',18,'mira','```json
{"tasks": [{"task_id": "model", "description": "Coupon model", "dependencies": [], "expected_outputs": ["model.py"], "risks": []}, {"task_id": "rules", "description": "Price rules", "dependencies": [], "expected_outputs": ["rules.py"], "risks": ["money"]}, {"task_id": "form", "description": "Form never-works", "dependencies": ["model", "rules"], "expected_outputs": ["form.py"], "risks": []}]}
```','2026-11-15T19:31:01.407Z',19,NULL,0);
INSERT INTO "messages" VALUES('psbn',19,'mira','```json
{"summary": "Write it. never-works", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:31:01.460Z',20,NULL,0);
INSERT INTO "messages" VALUES('psbn',20,'wren','```json
{"status": "blocked", "issues": ["no database here"]}
```','2026-11-15T19:31:01.550Z',21,NULL,0);
INSERT INTO "messages" VALUES('psbn',21,'mira','```json
{"summary": "Write it. never-works", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:31:01.664Z',22,NULL,0);
INSERT INTO "messages" VALUES('psbn',22,'wren','```json
{"status": "blocked", "issues": ["no database here"]}
```','2026-11-15T19:31:01.742Z',23,NULL,0);
INSERT INTO "messages" VALUES('psbn',23,'mira','```json
{"summary": "Write it. never-works", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:31:01.858Z',24,NULL,0);
INSERT INTO "messages" VALUES('psbn',24,'wren','```json
{"status": "blocked", "issues": ["no database here"]}
```','2026-11-15T19:31:01.933Z',25,NULL,0);
INSERT INTO "messages" VALUES('psbn',25,'mira','```json
{"tasks": [{"task_id": "model", "description": "Coupon model", "dependencies": [], "expected_outputs": ["model.py"], "risks": []}, {"task_id": "rules", "description": "Price rules", "dependencies": [], "expected_outputs": ["rules.py"], "risks": ["money"]}, {"task_id": "form", "description": "Form never-works", "dependencies": ["model", "rules"], "expected_outputs": ["form.py"], "risks": []}]}
```','2026-11-15T19:31:02.071Z',26,NULL,0);
INSERT INTO "messages" VALUES('psbn',26,'mira','```json
{"summary": "Write it. never-works", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:31:02.147Z',27,NULL,0);
INSERT INTO "messages" VALUES('psbn',27,'wren','```json
{"status": "blocked", "issues": ["no database here"]}
```','2026-11-15T19:31:02.272Z',28,NULL,0);
INSERT INTO "messages" VALUES('psbn',28,'mira','```json
{"summary": "Write it. never-works", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:31:02.402Z',29,NULL,0);
INSERT INTO "messages" VALUES('psbn',29,'wren','```json
{"status": "blocked", "issues": ["no database here"]}
```','2026-11-15T19:31:02.483Z',30,NULL,0);
INSERT INTO "messages" VALUES('psbn',30,'mira','```json
{"summary": "Write it. never-works", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:31:02.619Z',31,NULL,0);
INSERT INTO "messages" VALUES('psbn',31,'wren','```json
{"status": "blocked", "issues": ["no database here"]}
```','2026-11-15T19:31:02.706Z',32,NULL,0);
INSERT INTO "messages" VALUES('xjgr',1,'max','hello','2026-11-15T19:30:54.581Z',0,NULL,0);
INSERT INTO "messages" VALUES('xjgr',2,'ada','ada heard ''hello''','2026-11-15T19:30:54.649Z',1,NULL,0);
INSERT INTO "messages" VALUES('y7uw',1,'you','hello','2026-11-15T19:30:51.796Z',0,NULL,0);
INSERT INTO "messages" VALUES('y7uw',2,'ada','ada heard ''hello''','2026-11-15T19:30:51.887Z',1,NULL,0);
INSERT INTO "messages" VALUES('y7uw',3,'rex','rex heard "ada heard ''hello''"','2026-11-15T19:30:51.935Z',2,NULL,0);
INSERT INTO "messages" VALUES('ydyc',1,'you','Coupons, looked-at sent-back','2026-11-15T19:30:57.550Z',0,NULL,0);
INSERT INTO "messages" VALUES('ydyc',2,'mira','```json
{"status": "clear", "intent_summary": "Coupons."}
```','2026-11-15T19:30:57.702Z',1,NULL,0);
INSERT INTO "messages" VALUES('ydyc',3,'mira','```json
{"tasks": [{"task_id": "model", "description": "Coupon model", "dependencies": [], "expected_outputs": ["model.py"], "risks": []}, {"task_id": "rules", "description": "Price rules", "dependencies": [], "expected_outputs": ["rules.py"], "risks": ["money"]}, {"task_id": "form", "description": "Form sent-back looked-at", "dependencies": ["model", "rules"], "expected_outputs": ["form.py"], "risks": []}]}
```','2026-11-15T19:30:57.799Z',2,NULL,0);
INSERT INTO "messages" VALUES('ydyc',4,'mira','```json
{"summary": "Write it.", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:30:57.913Z',5,NULL,0);
INSERT INTO "messages" VALUES('ydyc',5,'wren','```json
{"status": "completed", "outputs": ["T1.py"], "evidence": ["I ran it"]}
```','2026-11-15T19:30:58.052Z',6,NULL,0);
INSERT INTO "messages" VALUES('ydyc',6,'mira','```json
{"decision": "approved", "notes": "fine"}
```','2026-11-15T19:30:58.240Z',7,NULL,0);
INSERT INTO "messages" VALUES('ydyc',7,'mira','```json
{"summary": "Carefully.", "risks": ["rounding"], "draft_steps": ["look"]}
```','2026-11-15T19:30:58.350Z',8,NULL,0);
INSERT INTO "messages" VALUES('ydyc',8,'wren','```json
{"status": "proposal", "outputs": ["I agree"], "next_actions": ["begin"]}
```','2026-11-15T19:30:58.456Z',9,NULL,0);
INSERT INTO "messages" VALUES('ydyc',9,'mira','```json
{"summary": "Write it.", "steps": ["open an editor"], "acceptance_criteria": []}
```','2026-11-15T19:30:58.516Z',10,NULL,0);
INSERT INTO "messages" VALUES('ydyc',10,'wren','```json
{"status": "completed", "outputs": ["T2.py"], "evidence": ["I ran it"]}
```','2026-11-15T19:30:58.592Z',11,NULL,0);
INSERT INTO "messages" VALUES('ydyc',11,'mira','```json
{"decision": "approved", "notes": "fine"}
```','2026-11-15T19:30:58.760Z',12,NULL,0);
INSERT INTO "messages" VALUES('ydyc',12,'mira','```json
{"summary": "Write it.", "steps": ["open an editor"], "acceptance_criteria": [{"text": "looks right on a phone"}]}
```','2026-11-15T19:30:58.877Z',13,NULL,0);
INSERT INTO "messages" VALUES('ydyc',13,'wren','form.py is written.
```json
{"status": "completed", "outputs": ["form.py"], "evidence": ["I ran it"]}
```','2026-11-15T19:30:58.972Z',14,NULL,0);
INSERT INTO "messages" VALUES('ydyc',14,'mira','```json
{"decision": "changes_requested", "requested_changes": ["missing error path"]}
```','2026-11-15T19:30:59.142Z',15,NULL,0);
INSERT INTO "messages" VALUES('ydyc',15,'wren','form.py is written.
```json
{"status": "completed", "outputs": ["form.py"], "evidence": ["mended"]}
```','2026-11-15T19:30:59.256Z',16,NULL,0);
INSERT INTO "messages" VALUES('ydyc',16,'mira','```json
{"decision": "approved", "notes": "fine"}
```','2026-11-15T19:30:59.469Z',17,NULL,0);
CREATE TABLE questions (
    id TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    step TEXT NOT NULL,
    state TEXT NOT NULL,                   -- open, answered, closed
    requested INTEGER NOT NULL,            -- the sequences of its two events
    responded INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "questions" VALUES('q1','nc7h','turn/2/asked/turn','open',6,NULL);
INSERT INTO "questions" VALUES('q10','hjw5','plan/1/approve','open',34,NULL);
INSERT INTO "questions" VALUES('q2','c4gn','turn/2/asked/turn','answered',9,10);
INSERT INTO "questions" VALUES('q3','xjgr','turn/2/asked/turn','open',13,NULL);
INSERT INTO "questions" VALUES('q4','g4hr','turn/3/asked/budget.task.turns.2.1','open',16,NULL);
INSERT INTO "questions" VALUES('q5','gffx','turn/1/asked/1.call_b6fea051_2_1@ann','answered',19,20);
INSERT INTO "questions" VALUES('q6','gffx','turn/1/asked/2.call_b6fea051_5_1@ann','open',21,NULL);
INSERT INTO "questions" VALUES('q7','ydyc','plan/1/approve','answered',24,25);
INSERT INTO "questions" VALUES('q8','psbn','plan/1/approve','answered',29,30);
INSERT INTO "questions" VALUES('q9','psbn','ticket/T5/at/8/failed','open',31,NULL);
CREATE TABLE requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- an id that was acted on must not come again
    task_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    author TEXT NOT NULL,
    text TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE TABLE steps (
    task_id TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,
    input TEXT NOT NULL,
    result TEXT,
    opened INTEGER NOT NULL,               -- grows within a task, over steps and turns alike
    PRIMARY KEY (task_id, name)
) STRICT, WITHOUT ROWID;
INSERT INTO "steps" VALUES('c4gn','turn/1','turn','9c4458baf72fc975','','{"message":2}',1);
INSERT INTO "steps" VALUES('c4gn','turn/2','turn','764f330e482904bc','','{"message":3}',3);
INSERT INTO "steps" VALUES('c4gn','turn/2/asked/turn','ask','8c4145558ecf89c9','q2','{"interactionId":"q2","taskId":"c4gn","authorActorId":"you","selectedOptionId":null,"inputValue":"@rex rex-hangs, what now?","comment":null}',5);
INSERT INTO "steps" VALUES('c4gn','turn/3','turn','23d3d54073a22819','',NULL,6);
INSERT INTO "steps" VALUES('g4hr','turn/1','turn','9c4458baf72fc975','','{"message":2}',1);
INSERT INTO "steps" VALUES('g4hr','turn/2','turn','1167159e4d675c9c','','{"message":3}',3);
INSERT INTO "steps" VALUES('g4hr','turn/3/asked/budget.task.turns.2.1','ask','28cbdf1e30f594b8','q4',NULL,5);
INSERT INTO "steps" VALUES('gffx','turn/1','turn','f8c40edd2a05e2d7','',NULL,1);
INSERT INTO "steps" VALUES('gffx','turn/1/asked/1.call_b6fea051_2_1@ann','ask','64ed7c4e65627cb6','q5','{"interactionId":"q5","taskId":"gffx","authorActorId":"you","selectedOptionId":"approve","inputValue":null,"comment":null}',3);
INSERT INTO "steps" VALUES('gffx','turn/1/asked/2.call_b6fea051_2_1@ann','ask','64ed7c4e65627cb6','q5','{"interactionId":"q5","taskId":"gffx","authorActorId":"you","selectedOptionId":"approve","inputValue":null,"comment":null}',5);
INSERT INTO "steps" VALUES('gffx','turn/1/asked/2.call_b6fea051_5_1@ann','ask','732f722d5331bbdf','q6',NULL,6);
INSERT INTO "steps" VALUES('hjw5','clarify/1/asked','step','cd26d7b9ccee6a95','','"2026-11-15T19:31:02.867Z"',4);
INSERT INTO "steps" VALUES('hjw5','clarify/1/said/1','turn','bc7a546242c5d21e','','{"message":2}',2);
INSERT INTO "steps" VALUES('hjw5','ground','step','fcf70805217a898b','','"d7230887079c41bb8c1e5783b221f90ada0d39b4"',1);
INSERT INTO "steps" VALUES('hjw5','plan/1/approve','ask','ef12fc0f42c4d7cb','q10',NULL,7);
INSERT INTO "steps" VALUES('hjw5','plan/1/try/1/said/1','turn','0cad2bb257e5bcb8','','{"message":3}',5);
INSERT INTO "steps" VALUES('nc7h','turn/1','turn','9c4458baf72fc975','','{"message":2}',1);
INSERT INTO "steps" VALUES('nc7h','turn/2','turn','764f330e482904bc','',NULL,3);
INSERT INTO "steps" VALUES('nc7h','turn/2/asked/turn','ask','8c4145558ecf89c9','q1',NULL,5);
INSERT INTO "steps" VALUES('psbn','clarify/1/asked','step','cd26d7b9ccee6a95','','"2026-11-15T19:30:59.621Z"',4);
INSERT INTO "steps" VALUES('psbn','clarify/1/said/1','turn','bc7a546242c5d21e','','{"message":2}',2);
INSERT INTO "steps" VALUES('psbn','ground','step','fcf70805217a898b','','"d7230887079c41bb8c1e5783b221f90ada0d39b4"',1);
INSERT INTO "steps" VALUES('psbn','manager/T1/at/1/instruct/said/1','turn','a7945e8c078b700b','','{"message":4}',9);
INSERT INTO "steps" VALUES('psbn','manager/T1/at/3/review/said/1','turn','251aa0310ba1caed','','{"message":6}',15);
INSERT INTO "steps" VALUES('psbn','manager/T2/at/1/propose/said/1','turn','592acf083883763d','','{"message":7}',19);
INSERT INTO "steps" VALUES('psbn','manager/T2/at/3/instruct/said/1','turn','2d8f6b9ed395e8ec','','{"message":9}',25);
INSERT INTO "steps" VALUES('psbn','manager/T2/at/5/review/said/1','turn','514b7cfd3e2557e8','','{"message":11}',31);
INSERT INTO "steps" VALUES('psbn','manager/T3/at/1/instruct/said/1','turn','e14468d701d762a7','','{"message":12}',35);
INSERT INTO "steps" VALUES('psbn','manager/T3/at/3/unblock/said/1','turn','c00dc45fffaeff65','','{"message":14}',41);
INSERT INTO "steps" VALUES('psbn','manager/T3/at/5/unblock/said/1','turn','449be4c6dcc08be5','','{"message":16}',47);
INSERT INTO "steps" VALUES('psbn','manager/T4/at/1/instruct/said/1','turn','f945b7618cdab282','','{"message":19}',57);
INSERT INTO "steps" VALUES('psbn','manager/T4/at/3/unblock/said/1','turn','555ffb4f39edbc0f','','{"message":21}',63);
INSERT INTO "steps" VALUES('psbn','manager/T4/at/5/unblock/said/1','turn','8168534888fc24b1','','{"message":23}',69);
INSERT INTO "steps" VALUES('psbn','manager/T5/at/1/instruct/said/1','turn','8be1d88c80629bc7','','{"message":26}',79);
INSERT INTO "steps" VALUES('psbn','manager/T5/at/3/unblock/said/1','turn','04ede5c996993f51','','{"message":28}',85);
INSERT INTO "steps" VALUES('psbn','manager/T5/at/5/unblock/said/1','turn','c4f13c60db88fdbb','','{"message":30}',91);
INSERT INTO "steps" VALUES('psbn','plan/1/approve','ask','184d6946c2ec6028','q8','{"interactionId":"q8","taskId":"psbn","authorActorId":"you","selectedOptionId":"approve","inputValue":null,"comment":null}',7);
INSERT INTO "steps" VALUES('psbn','plan/1/tickets','step','36bfca176e4037f1','','"2026-11-15T19:30:59.684Z"',8);
INSERT INTO "steps" VALUES('psbn','plan/1/try/1/said/1','turn','0cad2bb257e5bcb8','','{"message":3}',5);
INSERT INTO "steps" VALUES('psbn','plan/2/tickets','step','8b2f53010946fdfa','','"2026-11-15T19:31:01.407Z"',56);
INSERT INTO "steps" VALUES('psbn','plan/3/tickets','step','0c7dc5966d2cbe6e','','"2026-11-15T19:31:02.072Z"',78);
INSERT INTO "steps" VALUES('psbn','replan/1/531a6fc5e8e34dd7/try/1/said/1','turn','9c40f9044b756be9','','{"message":18}',54);
INSERT INTO "steps" VALUES('psbn','replan/2/a9679f9b97248daf/try/1/said/1','turn','3057f05bf20a3a14','','{"message":25}',76);
INSERT INTO "steps" VALUES('psbn','ticket/T1/at/2/work/said/1','turn','9ba7a513c40624cf','','{"message":5}',12);
INSERT INTO "steps" VALUES('psbn','ticket/T1/at/3/review/merge/04de97dc04f8/land','step','4ae6d49a5fef4f4a','','"5924dfe8f1e44844df975217b0fe4bb2c48f4336"',17);
INSERT INTO "steps" VALUES('psbn','ticket/T1/history/1','step','f0628b5b1a336c2f','','"2026-11-15T19:30:59.732Z"',11);
INSERT INTO "steps" VALUES('psbn','ticket/T1/history/2','step','3e6903c6347f7ea2','','"2026-11-15T19:30:59.912Z"',14);
INSERT INTO "steps" VALUES('psbn','ticket/T1/history/3','step','d2ad79fe4ebdc811','','"2026-11-15T19:31:00.052Z"',18);
INSERT INTO "steps" VALUES('psbn','ticket/T2/at/2/discuss/said/1','turn','76b7b436dfffa408','','{"message":8}',22);
INSERT INTO "steps" VALUES('psbn','ticket/T2/at/4/work/said/1','turn','2a96c67d98d06a88','','{"message":10}',28);
INSERT INTO "steps" VALUES('psbn','ticket/T2/at/5/review/merge/0c77e869480d/land','step','aeead4ec5c83a5ab','','"a594af6e1eed682d81d1335ea073c0111491880f"',33);
INSERT INTO "steps" VALUES('psbn','ticket/T2/history/1','step','6eeff6396bddf56d','','"2026-11-15T19:31:00.107Z"',21);
INSERT INTO "steps" VALUES('psbn','ticket/T2/history/2','step','99bc450e1f5ae7dd','','"2026-11-15T19:31:00.213Z"',24);
INSERT INTO "steps" VALUES('psbn','ticket/T2/history/3','step','f0628b5b1a336c2f','','"2026-11-15T19:31:00.427Z"',27);
INSERT INTO "steps" VALUES('psbn','ticket/T2/history/4','step','3e6903c6347f7ea2','','"2026-11-15T19:31:00.602Z"',30);
INSERT INTO "steps" VALUES('psbn','ticket/T2/history/5','step','d2ad79fe4ebdc811','','"2026-11-15T19:31:00.758Z"',34);
INSERT INTO "steps" VALUES('psbn','ticket/T3/at/2/work/said/1','turn','bc0edfecc3816ba3','','{"message":13}',38);
INSERT INTO "steps" VALUES('psbn','ticket/T3/at/4/work/said/1','turn','8b85f03f6790855b','','{"message":15}',44);
INSERT INTO "steps" VALUES('psbn','ticket/T3/at/6/work/said/1','turn','6b7c8cd860ce3c52','','{"message":17}',50);
INSERT INTO "steps" VALUES('psbn','ticket/T3/history/1','step','f0628b5b1a336c2f','','"2026-11-15T19:31:00.819Z"',37);
INSERT INTO "steps" VALUES('psbn','ticket/T3/history/2','step','267db34ffaf76662','','"2026-11-15T19:31:00.979Z"',40);
INSERT INTO "steps" VALUES('psbn','ticket/T3/history/3','step','f0628b5b1a336c2f','','"2026-11-15T19:31:01.037Z"',43);
INSERT INTO "steps" VALUES('psbn','ticket/T3/history/4','step','267db34ffaf76662','','"2026-11-15T19:31:01.165Z"',46);
INSERT INTO "steps" VALUES('psbn','ticket/T3/history/5','step','f0628b5b1a336c2f','','"2026-11-15T19:31:01.222Z"',49);
INSERT INTO "steps" VALUES('psbn','ticket/T3/history/6','step','267db34ffaf76662','','"2026-11-15T19:31:01.358Z"',52);
INSERT INTO "steps" VALUES('psbn','ticket/T3/history/7','step','90ca987c1edd85c2','','"2026-11-15T19:31:01.360Z"',53);
INSERT INTO "steps" VALUES('psbn','ticket/T4/at/2/work/said/1','turn','9cd2077f6dc4e3a9','','{"message":20}',60);
INSERT INTO "steps" VALUES('psbn','ticket/T4/at/4/work/said/1','turn','d72d186032dcaeca','','{"message":22}',66);
INSERT INTO "steps" VALUES('psbn','ticket/T4/at/6/work/said/1','turn','d63f9bd742d9238c','','{"message":24}',72);
INSERT INTO "steps" VALUES('psbn','ticket/T4/history/1','step','f0628b5b1a336c2f','','"2026-11-15T19:31:01.461Z"',59);
INSERT INTO "steps" VALUES('psbn','ticket/T4/history/2','step','267db34ffaf76662','','"2026-11-15T19:31:01.597Z"',62);
INSERT INTO "steps" VALUES('psbn','ticket/T4/history/3','step','f0628b5b1a336c2f','','"2026-11-15T19:31:01.665Z"',65);
INSERT INTO "steps" VALUES('psbn','ticket/T4/history/4','step','267db34ffaf76662','','"2026-11-15T19:31:01.793Z"',68);
INSERT INTO "steps" VALUES('psbn','ticket/T4/history/5','step','f0628b5b1a336c2f','','"2026-11-15T19:31:01.859Z"',71);
INSERT INTO "steps" VALUES('psbn','ticket/T4/history/6','step','267db34ffaf76662','','"2026-11-15T19:31:01.994Z"',74);
INSERT INTO "steps" VALUES('psbn','ticket/T4/history/7','step','90ca987c1edd85c2','','"2026-11-15T19:31:01.995Z"',75);
INSERT INTO "steps" VALUES('psbn','ticket/T5/at/2/work/said/1','turn','ca7b26b79c22da9f','','{"message":27}',82);
INSERT INTO "steps" VALUES('psbn','ticket/T5/at/4/work/said/1','turn','8ae73cb3a2c0d700','','{"message":29}',88);
INSERT INTO "steps" VALUES('psbn','ticket/T5/at/6/work/said/1','turn','cff28e784d52c412','','{"message":31}',94);
INSERT INTO "steps" VALUES('psbn','ticket/T5/at/8/failed','ask','7c410736ac72b538','q9',NULL,98);
INSERT INTO "steps" VALUES('psbn','ticket/T5/history/1','step','f0628b5b1a336c2f','','"2026-11-15T19:31:02.147Z"',81);
INSERT INTO "steps" VALUES('psbn','ticket/T5/history/2','step','267db34ffaf76662','','"2026-11-15T19:31:02.339Z"',84);
INSERT INTO "steps" VALUES('psbn','ticket/T5/history/3','step','f0628b5b1a336c2f','','"2026-11-15T19:31:02.402Z"',87);
INSERT INTO "steps" VALUES('psbn','ticket/T5/history/4','step','267db34ffaf76662','','"2026-11-15T19:31:02.549Z"',90);
INSERT INTO "steps" VALUES('psbn','ticket/T5/history/5','step','f0628b5b1a336c2f','','"2026-11-15T19:31:02.619Z"',93);
INSERT INTO "steps" VALUES('psbn','ticket/T5/history/6','step','267db34ffaf76662','','"2026-11-15T19:31:02.770Z"',96);
INSERT INTO "steps" VALUES('psbn','ticket/T5/history/7','step','90ca987c1edd85c2','','"2026-11-15T19:31:02.772Z"',97);
INSERT INTO "steps" VALUES('xjgr','turn/1','turn','9c4458baf72fc975','','{"message":2}',1);
INSERT INTO "steps" VALUES('xjgr','turn/2','turn','edf2e459190ab9ff','',NULL,3);
INSERT INTO "steps" VALUES('xjgr','turn/2/asked/turn','ask','23cd1746c467d4b2','q3',NULL,5);
INSERT INTO "steps" VALUES('y7uw','turn/1','turn','9c4458baf72fc975','','{"message":2}',1);
INSERT INTO "steps" VALUES('y7uw','turn/2','turn','1167159e4d675c9c','','{"message":3}',3);
INSERT INTO "steps" VALUES('ydyc','clarify/1/asked','step','cd26d7b9ccee6a95','','"2026-11-15T19:30:57.703Z"',4);
INSERT INTO "steps" VALUES('ydyc','clarify/1/said/1','turn','bc7a546242c5d21e','','{"message":2}',2);
INSERT INTO "steps" VALUES('ydyc','final/commit','step','fcf70805217a898b','','"85ace89b4f3c9d17aa54e3b1ba27d59066a96190"',51);
INSERT INTO "steps" VALUES('ydyc','ground','step','fcf70805217a898b','','"d7230887079c41bb8c1e5783b221f90ada0d39b4"',1);
INSERT INTO "steps" VALUES('ydyc','manager/T1/at/1/instruct/said/1','turn','a7945e8c078b700b','','{"message":4}',9);
INSERT INTO "steps" VALUES('ydyc','manager/T1/at/3/review/said/1','turn','251aa0310ba1caed','','{"message":6}',15);
INSERT INTO "steps" VALUES('ydyc','manager/T2/at/1/propose/said/1','turn','592acf083883763d','','{"message":7}',19);
INSERT INTO "steps" VALUES('ydyc','manager/T2/at/3/instruct/said/1','turn','2d8f6b9ed395e8ec','','{"message":9}',25);
INSERT INTO "steps" VALUES('ydyc','manager/T2/at/5/review/said/1','turn','514b7cfd3e2557e8','','{"message":11}',31);
INSERT INTO "steps" VALUES('ydyc','manager/T3/at/1/instruct/said/1','turn','e14468d701d762a7','','{"message":12}',35);
INSERT INTO "steps" VALUES('ydyc','manager/T3/at/3/review/said/1','turn','7afc35859fccdad3','','{"message":14}',41);
INSERT INTO "steps" VALUES('ydyc','manager/T3/at/5/review/said/1','turn','7f08aa74ab47259a','','{"message":16}',47);
INSERT INTO "steps" VALUES('ydyc','plan/1/approve','ask','c31418be0d123bde','q7','{"interactionId":"q7","taskId":"ydyc","authorActorId":"you","selectedOptionId":"approve","inputValue":null,"comment":null}',7);
INSERT INTO "steps" VALUES('ydyc','plan/1/tickets','step','36bfca176e4037f1','','"2026-11-15T19:30:57.825Z"',8);
INSERT INTO "steps" VALUES('ydyc','plan/1/try/1/said/1','turn','0cad2bb257e5bcb8','','{"message":3}',5);
INSERT INTO "steps" VALUES('ydyc','ticket/T1/at/2/work/said/1','turn','9ba7a513c40624cf','','{"message":5}',12);
INSERT INTO "steps" VALUES('ydyc','ticket/T1/at/3/review/merge/04de97dc04f8/land','step','4ae6d49a5fef4f4a','','"cca8c5375b9c28c62ff485a92a6bc51382483619"',17);
INSERT INTO "steps" VALUES('ydyc','ticket/T1/history/1','step','f0628b5b1a336c2f','','"2026-11-15T19:30:57.913Z"',11);
INSERT INTO "steps" VALUES('ydyc','ticket/T1/history/2','step','3e6903c6347f7ea2','','"2026-11-15T19:30:58.132Z"',14);
INSERT INTO "steps" VALUES('ydyc','ticket/T1/history/3','step','d2ad79fe4ebdc811','','"2026-11-15T19:30:58.291Z"',18);
INSERT INTO "steps" VALUES('ydyc','ticket/T2/at/2/discuss/said/1','turn','76b7b436dfffa408','','{"message":8}',22);
INSERT INTO "steps" VALUES('ydyc','ticket/T2/at/4/work/said/1','turn','2a96c67d98d06a88','','{"message":10}',28);
INSERT INTO "steps" VALUES('ydyc','ticket/T2/at/5/review/merge/0c77e869480d/land','step','aeead4ec5c83a5ab','','"f498c77ca9bda864b297e2beba2a3df4ce6b37f8"',33);
INSERT INTO "steps" VALUES('ydyc','ticket/T2/history/1','step','6eeff6396bddf56d','','"2026-11-15T19:30:58.350Z"',21);
INSERT INTO "steps" VALUES('ydyc','ticket/T2/history/2','step','99bc450e1f5ae7dd','','"2026-11-15T19:30:58.456Z"',24);
INSERT INTO "steps" VALUES('ydyc','ticket/T2/history/3','step','f0628b5b1a336c2f','','"2026-11-15T19:30:58.516Z"',27);
INSERT INTO "steps" VALUES('ydyc','ticket/T2/history/4','step','3e6903c6347f7ea2','','"2026-11-15T19:30:58.672Z"',30);
INSERT INTO "steps" VALUES('ydyc','ticket/T2/history/5','step','d2ad79fe4ebdc811','','"2026-11-15T19:30:58.827Z"',34);
INSERT INTO "steps" VALUES('ydyc','ticket/T3/at/2/work/said/1','turn','bc0edfecc3816ba3','','{"message":13}',38);
INSERT INTO "steps" VALUES('ydyc','ticket/T3/at/4/work/said/1','turn','8b85f03f6790855b','','{"message":15}',44);
INSERT INTO "steps" VALUES('ydyc','ticket/T3/at/5/review/merge/c1ffa11f1d18/land','step','42e5b66d2fd79892','','"85ace89b4f3c9d17aa54e3b1ba27d59066a96190"',49);
INSERT INTO "steps" VALUES('ydyc','ticket/T3/history/1','step','f0628b5b1a336c2f','','"2026-11-15T19:30:58.877Z"',37);
INSERT INTO "steps" VALUES('ydyc','ticket/T3/history/2','step','3e6903c6347f7ea2','','"2026-11-15T19:30:59.050Z"',40);
INSERT INTO "steps" VALUES('ydyc','ticket/T3/history/3','step','f0628b5b1a336c2f','','"2026-11-15T19:30:59.143Z"',43);
INSERT INTO "steps" VALUES('ydyc','ticket/T3/history/4','step','3e6903c6347f7ea2','','"2026-11-15T19:30:59.331Z"',46);
INSERT INTO "steps" VALUES('ydyc','ticket/T3/history/5','step','d2ad79fe4ebdc811','','"2026-11-15T19:30:59.535Z"',50);
CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    created INTEGER NOT NULL,              -- the sequence of its TaskCreated
    session_id TEXT NOT NULL,
    parent_id TEXT,
    workflow TEXT NOT NULL,
    title TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at TEXT NOT NULL,
    changed_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "tasks" VALUES('c4gn',7,'c4gn',NULL,'chat','ada-hangs, please','running','','2026-11-15T19:30:52.999Z','2026-11-15T19:30:54.048Z');
INSERT INTO "tasks" VALUES('g4hr',14,'g4hr',NULL,'chat','hello','waiting','','2026-11-15T19:30:54.665Z','2026-11-15T19:30:54.817Z');
INSERT INTO "tasks" VALUES('gffx',17,'gffx',NULL,'solo','Do all of it.','waiting','','2026-11-15T19:30:54.826Z','2026-11-15T19:30:57.423Z');
INSERT INTO "tasks" VALUES('hjw5',32,'hjw5',NULL,'tickets','Coupons too','waiting','','2026-11-15T19:31:02.784Z','2026-11-15T19:31:02.953Z');
INSERT INTO "tasks" VALUES('nc7h',4,'nc7h',NULL,'chat','ada-hangs, please','waiting','','2026-11-15T19:30:51.946Z','2026-11-15T19:30:52.984Z');
INSERT INTO "tasks" VALUES('psbn',27,'psbn',NULL,'tickets','Coupons, never-works','waiting','','2026-11-15T19:30:59.556Z','2026-11-15T19:31:02.774Z');
INSERT INTO "tasks" VALUES('xjgr',11,'xjgr',NULL,'chat','hello','waiting','','2026-11-15T19:30:54.581Z','2026-11-15T19:30:54.657Z');
INSERT INTO "tasks" VALUES('y7uw',1,'y7uw',NULL,'chat','hello','completed','max_rounds','2026-11-15T19:30:51.796Z','2026-11-15T19:30:51.936Z');
INSERT INTO "tasks" VALUES('ydyc',22,'ydyc',NULL,'tickets','Coupons, looked-at sent-back','completed','done','2026-11-15T19:30:57.550Z','2026-11-15T19:30:59.548Z');
CREATE TABLE threads (
    thread TEXT NOT NULL,
    place INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    entry TEXT NOT NULL,                   -- JSON, as its agent wrote it
    PRIMARY KEY (thread, place)
) STRICT, WITHOUT ROWID;
INSERT INTO "threads" VALUES('b6fea051e8804e968044cd0e0054aa83',1,'gffx','{"kind":"prompt","turn":"turn/1","text":"[MESSAGE]\nDo all of it."}');
INSERT INTO "threads" VALUES('b6fea051e8804e968044cd0e0054aa83',2,'gffx','{"kind":"reply","text":"Next.","calls":[{"id":"call_b6fea051_2_1","name":"runCommand","arguments":{"command":"echo ran >> ran-1"}}]}');
INSERT INTO "threads" VALUES('b6fea051e8804e968044cd0e0054aa83',3,'gffx','{"kind":"begun","call":"call_b6fea051_2_1"}');
INSERT INTO "threads" VALUES('b6fea051e8804e968044cd0e0054aa83',4,'gffx','{"kind":"result","call":"call_b6fea051_2_1","output":{"exitCode":0,"output":""},"is_error":false}');
INSERT INTO "threads" VALUES('b6fea051e8804e968044cd0e0054aa83',5,'gffx','{"kind":"reply","text":"Next.","calls":[{"id":"call_b6fea051_5_1","name":"runCommand","arguments":{"command":"echo ran >> ran-2"}}]}');
CREATE TABLE ticket_history (
    session_id TEXT NOT NULL,
    ticket_id TEXT NOT NULL,
    place INTEGER NOT NULL,
    at TEXT NOT NULL,
    event TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (session_id, ticket_id, place)
) STRICT, WITHOUT ROWID;
INSERT INTO "ticket_history" VALUES('psbn','T1',1,'2026-11-15T19:30:59.684Z','created','');
INSERT INTO "ticket_history" VALUES('psbn','T1',2,'2026-11-15T19:30:59.732Z','in_progress','instructed');
INSERT INTO "ticket_history" VALUES('psbn','T1',3,'2026-11-15T19:30:59.912Z','awaiting_review','wren reported');
INSERT INTO "ticket_history" VALUES('psbn','T1',4,'2026-11-15T19:31:00.052Z','done','approved, merged and green');
INSERT INTO "ticket_history" VALUES('psbn','T2',1,'2026-11-15T19:30:59.684Z','created','');
INSERT INTO "ticket_history" VALUES('psbn','T2',2,'2026-11-15T19:31:00.107Z','discussing','talked over');
INSERT INTO "ticket_history" VALUES('psbn','T2',3,'2026-11-15T19:31:00.213Z','discussed','wren answered');
INSERT INTO "ticket_history" VALUES('psbn','T2',4,'2026-11-15T19:31:00.427Z','in_progress','instructed');
INSERT INTO "ticket_history" VALUES('psbn','T2',5,'2026-11-15T19:31:00.602Z','awaiting_review','wren reported');
INSERT INTO "ticket_history" VALUES('psbn','T2',6,'2026-11-15T19:31:00.758Z','done','approved, merged and green');
INSERT INTO "ticket_history" VALUES('psbn','T3',1,'2026-11-15T19:30:59.684Z','created','');
INSERT INTO "ticket_history" VALUES('psbn','T3',2,'2026-11-15T19:31:00.819Z','in_progress','instructed');
INSERT INTO "ticket_history" VALUES('psbn','T3',3,'2026-11-15T19:31:00.979Z','blocked','no database here');
INSERT INTO "ticket_history" VALUES('psbn','T3',4,'2026-11-15T19:31:01.037Z','in_progress','instructed anew');
INSERT INTO "ticket_history" VALUES('psbn','T3',5,'2026-11-15T19:31:01.165Z','blocked','no database here');
INSERT INTO "ticket_history" VALUES('psbn','T3',6,'2026-11-15T19:31:01.222Z','in_progress','instructed anew');
INSERT INTO "ticket_history" VALUES('psbn','T3',7,'2026-11-15T19:31:01.358Z','blocked','no database here');
INSERT INTO "ticket_history" VALUES('psbn','T3',8,'2026-11-15T19:31:01.360Z','error','no database here');
INSERT INTO "ticket_history" VALUES('psbn','T3',9,'2026-11-15T19:31:01.407Z','closed','plan 2 does it anew');
INSERT INTO "ticket_history" VALUES('psbn','T4',1,'2026-11-15T19:31:01.407Z','created','');
INSERT INTO "ticket_history" VALUES('psbn','T4',2,'2026-11-15T19:31:01.461Z','in_progress','instructed');
INSERT INTO "ticket_history" VALUES('psbn','T4',3,'2026-11-15T19:31:01.597Z','blocked','no database here');
INSERT INTO "ticket_history" VALUES('psbn','T4',4,'2026-11-15T19:31:01.665Z','in_progress','instructed anew');
INSERT INTO "ticket_history" VALUES('psbn','T4',5,'2026-11-15T19:31:01.793Z','blocked','no database here');
INSERT INTO "ticket_history" VALUES('psbn','T4',6,'2026-11-15T19:31:01.859Z','in_progress','instructed anew');
INSERT INTO "ticket_history" VALUES('psbn','T4',7,'2026-11-15T19:31:01.994Z','blocked','no database here');
INSERT INTO "ticket_history" VALUES('psbn','T4',8,'2026-11-15T19:31:01.995Z','error','no database here');
INSERT INTO "ticket_history" VALUES('psbn','T4',9,'2026-11-15T19:31:02.072Z','closed','plan 3 does it anew');
INSERT INTO "ticket_history" VALUES('psbn','T5',1,'2026-11-15T19:31:02.072Z','created','');
INSERT INTO "ticket_history" VALUES('psbn','T5',2,'2026-11-15T19:31:02.147Z','in_progress','instructed');
INSERT INTO "ticket_history" VALUES('psbn','T5',3,'2026-11-15T19:31:02.339Z','blocked','no database here');
INSERT INTO "ticket_history" VALUES('psbn','T5',4,'2026-11-15T19:31:02.402Z','in_progress','instructed anew');
INSERT INTO "ticket_history" VALUES('psbn','T5',5,'2026-11-15T19:31:02.549Z','blocked','no database here');
INSERT INTO "ticket_history" VALUES('psbn','T5',6,'2026-11-15T19:31:02.619Z','in_progress','instructed anew');
INSERT INTO "ticket_history" VALUES('psbn','T5',7,'2026-11-15T19:31:02.770Z','blocked','no database here');
INSERT INTO "ticket_history" VALUES('psbn','T5',8,'2026-11-15T19:31:02.772Z','error','no database here');
INSERT INTO "ticket_history" VALUES('ydyc','T1',1,'2026-11-15T19:30:57.825Z','created','');
INSERT INTO "ticket_history" VALUES('ydyc','T1',2,'2026-11-15T19:30:57.913Z','in_progress','instructed');
INSERT INTO "ticket_history" VALUES('ydyc','T1',3,'2026-11-15T19:30:58.132Z','awaiting_review','wren reported');
INSERT INTO "ticket_history" VALUES('ydyc','T1',4,'2026-11-15T19:30:58.291Z','done','approved, merged and green');
INSERT INTO "ticket_history" VALUES('ydyc','T2',1,'2026-11-15T19:30:57.825Z','created','');
INSERT INTO "ticket_history" VALUES('ydyc','T2',2,'2026-11-15T19:30:58.350Z','discussing','talked over');
INSERT INTO "ticket_history" VALUES('ydyc','T2',3,'2026-11-15T19:30:58.456Z','discussed','wren answered');
INSERT INTO "ticket_history" VALUES('ydyc','T2',4,'2026-11-15T19:30:58.516Z','in_progress','instructed');
INSERT INTO "ticket_history" VALUES('ydyc','T2',5,'2026-11-15T19:30:58.672Z','awaiting_review','wren reported');
INSERT INTO "ticket_history" VALUES('ydyc','T2',6,'2026-11-15T19:30:58.827Z','done','approved, merged and green');
INSERT INTO "ticket_history" VALUES('ydyc','T3',1,'2026-11-15T19:30:57.825Z','created','');
INSERT INTO "ticket_history" VALUES('ydyc','T3',2,'2026-11-15T19:30:58.877Z','in_progress','instructed');
INSERT INTO "ticket_history" VALUES('ydyc','T3',3,'2026-11-15T19:30:59.050Z','awaiting_review','wren reported');
INSERT INTO "ticket_history" VALUES('ydyc','T3',4,'2026-11-15T19:30:59.143Z','in_progress','missing error path');
INSERT INTO "ticket_history" VALUES('ydyc','T3',5,'2026-11-15T19:30:59.331Z','awaiting_review','wren reported');
INSERT INTO "ticket_history" VALUES('ydyc','T3',6,'2026-11-15T19:30:59.535Z','done','approved, merged and green');
CREATE TABLE tickets (
    session_id TEXT NOT NULL,
    id TEXT NOT NULL,
    made INTEGER NOT NULL,                 -- in which order
    state TEXT NOT NULL,
    body TEXT NOT NULL,                    -- all but its history, as JSON
    PRIMARY KEY (session_id, id)
) STRICT, WITHOUT ROWID;
INSERT INTO "tickets" VALUES('psbn','T1',1,'done','{"task_id": "model", "title": "Coupon model", "owner": "wren", "dependencies": [], "closed_by": null, "reason": "approved, merged and green"}');
INSERT INTO "tickets" VALUES('psbn','T2',2,'done','{"task_id": "rules", "title": "Price rules", "owner": "wren", "dependencies": [], "closed_by": null, "reason": "approved, merged and green"}');
INSERT INTO "tickets" VALUES('psbn','T3',3,'error','{"task_id": "form", "title": "Form never-works", "owner": "wren", "dependencies": ["T1", "T2"], "closed_by": "T4", "reason": "plan 2 does it anew"}');
INSERT INTO "tickets" VALUES('psbn','T4',4,'error','{"task_id": "form", "title": "Form never-works", "owner": "wren", "dependencies": ["T1", "T2"], "closed_by": "T5", "reason": "plan 3 does it anew"}');
INSERT INTO "tickets" VALUES('psbn','T5',5,'error','{"task_id": "form", "title": "Form never-works", "owner": "wren", "dependencies": ["T1", "T2"], "closed_by": null, "reason": "no database here"}');
INSERT INTO "tickets" VALUES('ydyc','T1',1,'done','{"task_id": "model", "title": "Coupon model", "owner": "wren", "dependencies": [], "closed_by": null, "reason": "approved, merged and green"}');
INSERT INTO "tickets" VALUES('ydyc','T2',2,'done','{"task_id": "rules", "title": "Price rules", "owner": "wren", "dependencies": [], "closed_by": null, "reason": "approved, merged and green"}');
INSERT INTO "tickets" VALUES('ydyc','T3',3,'done','{"task_id": "form", "title": "Form sent-back looked-at", "owner": "wren", "dependencies": ["T1", "T2"], "closed_by": null, "reason": "approved, merged and green"}');
CREATE TABLE turns (
    task_id TEXT NOT NULL,
    step TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    member TEXT NOT NULL,
    token INTEGER NOT NULL,
    opened_at TEXT NOT NULL,
    thread TEXT,
    closed_at TEXT,
    outcome TEXT,
    detail TEXT,
    opened INTEGER NOT NULL, usage TEXT,
    PRIMARY KEY (task_id, step, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "turns" VALUES('c4gn','turn/1',1,'ada',1,'2026-11-15T19:30:53.007Z',NULL,'2026-11-15T19:30:54.034Z','interrupted',NULL,2,NULL);
INSERT INTO "turns" VALUES('c4gn','turn/2',1,'you',1,'2026-11-15T19:30:54.035Z',NULL,'2026-11-15T19:30:54.052Z','completed',NULL,4,NULL);
INSERT INTO "turns" VALUES('c4gn','turn/3',1,'rex',1,'2026-11-15T19:30:54.054Z',NULL,NULL,NULL,NULL,7,NULL);
INSERT INTO "turns" VALUES('g4hr','turn/1',1,'ada',1,'2026-11-15T19:30:54.672Z',NULL,'2026-11-15T19:30:54.734Z','completed',NULL,2,NULL);
INSERT INTO "turns" VALUES('g4hr','turn/2',1,'rex',1,'2026-11-15T19:30:54.737Z',NULL,'2026-11-15T19:30:54.811Z','completed',NULL,4,NULL);
INSERT INTO "turns" VALUES('gffx','turn/1',1,'ann',1,'2026-11-15T19:30:57.128Z','b6fea051e8804e968044cd0e0054aa83','2026-11-15T19:30:57.296Z','unknown',NULL,2,'{"input_tokens": 1462, "output_tokens": 9, "cost_usd": null, "source": "rehearsal"}');
INSERT INTO "turns" VALUES('gffx','turn/1',2,'ann',2,'2026-11-15T19:30:57.296Z','b6fea051e8804e968044cd0e0054aa83',NULL,NULL,NULL,4,'{"input_tokens": 1545, "output_tokens": 9, "cost_usd": null, "source": "rehearsal"}');
INSERT INTO "turns" VALUES('hjw5','clarify/1/said/1',1,'mira',1,'2026-11-15T19:31:02.799Z',NULL,'2026-11-15T19:31:02.867Z','completed',NULL,3,NULL);
INSERT INTO "turns" VALUES('hjw5','plan/1/try/1/said/1',1,'mira',1,'2026-11-15T19:31:02.869Z',NULL,'2026-11-15T19:31:02.947Z','completed',NULL,6,NULL);
INSERT INTO "turns" VALUES('nc7h','turn/1',1,'ada',1,'2026-11-15T19:30:51.956Z',NULL,'2026-11-15T19:30:52.981Z','interrupted',NULL,2,NULL);
INSERT INTO "turns" VALUES('nc7h','turn/2',1,'you',1,'2026-11-15T19:30:52.982Z',NULL,NULL,NULL,NULL,4,NULL);
INSERT INTO "turns" VALUES('psbn','clarify/1/said/1',1,'mira',1,'2026-11-15T19:30:59.567Z',NULL,'2026-11-15T19:30:59.621Z','completed',NULL,3,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T1/at/1/instruct/said/1',1,'mira',2,'2026-11-15T19:30:59.686Z',NULL,'2026-11-15T19:30:59.732Z','completed',NULL,10,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T1/at/3/review/said/1',1,'mira',2,'2026-11-15T19:30:59.935Z',NULL,'2026-11-15T19:30:59.987Z','completed',NULL,16,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T2/at/1/propose/said/1',1,'mira',2,'2026-11-15T19:31:00.055Z',NULL,'2026-11-15T19:31:00.107Z','completed',NULL,20,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T2/at/3/instruct/said/1',1,'mira',2,'2026-11-15T19:31:00.366Z',NULL,'2026-11-15T19:31:00.427Z','completed',NULL,26,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T2/at/5/review/said/1',1,'mira',2,'2026-11-15T19:31:00.633Z',NULL,'2026-11-15T19:31:00.693Z','completed',NULL,32,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T3/at/1/instruct/said/1',1,'mira',2,'2026-11-15T19:31:00.760Z',NULL,'2026-11-15T19:31:00.819Z','completed',NULL,36,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T3/at/3/unblock/said/1',1,'mira',2,'2026-11-15T19:31:00.981Z',NULL,'2026-11-15T19:31:01.037Z','completed',NULL,42,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T3/at/5/unblock/said/1',1,'mira',2,'2026-11-15T19:31:01.168Z',NULL,'2026-11-15T19:31:01.222Z','completed',NULL,48,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T4/at/1/instruct/said/1',1,'mira',2,'2026-11-15T19:31:01.409Z',NULL,'2026-11-15T19:31:01.461Z','completed',NULL,58,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T4/at/3/unblock/said/1',1,'mira',2,'2026-11-15T19:31:01.599Z',NULL,'2026-11-15T19:31:01.664Z','completed',NULL,64,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T4/at/5/unblock/said/1',1,'mira',2,'2026-11-15T19:31:01.802Z',NULL,'2026-11-15T19:31:01.858Z','completed',NULL,70,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T5/at/1/instruct/said/1',1,'mira',2,'2026-11-15T19:31:02.083Z',NULL,'2026-11-15T19:31:02.147Z','completed',NULL,80,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T5/at/3/unblock/said/1',1,'mira',2,'2026-11-15T19:31:02.341Z',NULL,'2026-11-15T19:31:02.402Z','completed',NULL,86,NULL);
INSERT INTO "turns" VALUES('psbn','manager/T5/at/5/unblock/said/1',1,'mira',2,'2026-11-15T19:31:02.551Z',NULL,'2026-11-15T19:31:02.619Z','completed',NULL,92,NULL);
INSERT INTO "turns" VALUES('psbn','plan/1/try/1/said/1',1,'mira',1,'2026-11-15T19:30:59.625Z',NULL,'2026-11-15T19:30:59.670Z','completed',NULL,6,NULL);
INSERT INTO "turns" VALUES('psbn','replan/1/531a6fc5e8e34dd7/try/1/said/1',1,'mira',2,'2026-11-15T19:31:01.363Z',NULL,'2026-11-15T19:31:01.407Z','completed',NULL,55,NULL);
INSERT INTO "turns" VALUES('psbn','replan/2/a9679f9b97248daf/try/1/said/1',1,'mira',2,'2026-11-15T19:31:01.998Z',NULL,'2026-11-15T19:31:02.071Z','completed',NULL,77,NULL);
INSERT INTO "turns" VALUES('psbn','ticket/T1/at/2/work/said/1',1,'wren',2,'2026-11-15T19:30:59.784Z',NULL,'2026-11-15T19:30:59.846Z','completed',NULL,13,NULL);
INSERT INTO "turns" VALUES('psbn','ticket/T2/at/2/discuss/said/1',1,'wren',2,'2026-11-15T19:31:00.149Z',NULL,'2026-11-15T19:31:00.213Z','completed',NULL,23,NULL);
INSERT INTO "turns" VALUES('psbn','ticket/T2/at/4/work/said/1',1,'wren',2,'2026-11-15T19:31:00.448Z',NULL,'2026-11-15T19:31:00.509Z','completed',NULL,29,NULL);
INSERT INTO "turns" VALUES('psbn','ticket/T3/at/2/work/said/1',1,'wren',2,'2026-11-15T19:31:00.871Z',NULL,'2026-11-15T19:31:00.922Z','completed',NULL,39,NULL);
INSERT INTO "turns" VALUES('psbn','ticket/T3/at/4/work/said/1',1,'wren',2,'2026-11-15T19:31:01.055Z',NULL,'2026-11-15T19:31:01.106Z','completed',NULL,45,NULL);
INSERT INTO "turns" VALUES('psbn','ticket/T3/at/6/work/said/1',1,'wren',2,'2026-11-15T19:31:01.242Z',NULL,'2026-11-15T19:31:01.303Z','completed',NULL,51,NULL);
INSERT INTO "turns" VALUES('psbn','ticket/T4/at/2/work/said/1',1,'wren',2,'2026-11-15T19:31:01.503Z',NULL,'2026-11-15T19:31:01.550Z','completed',NULL,61,NULL);
INSERT INTO "turns" VALUES('psbn','ticket/T4/at/4/work/said/1',1,'wren',2,'2026-11-15T19:31:01.683Z',NULL,'2026-11-15T19:31:01.742Z','completed',NULL,67,NULL);
INSERT INTO "turns" VALUES('psbn','ticket/T4/at/6/work/said/1',1,'wren',2,'2026-11-15T19:31:01.877Z',NULL,'2026-11-15T19:31:01.933Z','completed',NULL,73,NULL);
INSERT INTO "turns" VALUES('psbn','ticket/T5/at/2/work/said/1',1,'wren',2,'2026-11-15T19:31:02.200Z',NULL,'2026-11-15T19:31:02.272Z','completed',NULL,83,NULL);
INSERT INTO "turns" VALUES('psbn','ticket/T5/at/4/work/said/1',1,'wren',2,'2026-11-15T19:31:02.421Z',NULL,'2026-11-15T19:31:02.484Z','completed',NULL,89,NULL);
INSERT INTO "turns" VALUES('psbn','ticket/T5/at/6/work/said/1',1,'wren',2,'2026-11-15T19:31:02.642Z',NULL,'2026-11-15T19:31:02.706Z','completed',NULL,95,NULL);
INSERT INTO "turns" VALUES('xjgr','turn/1',1,'ada',1,'2026-11-15T19:30:54.588Z',NULL,'2026-11-15T19:30:54.649Z','completed',NULL,2,NULL);
INSERT INTO "turns" VALUES('xjgr','turn/2',1,'max',1,'2026-11-15T19:30:54.650Z',NULL,NULL,NULL,NULL,4,NULL);
INSERT INTO "turns" VALUES('y7uw','turn/1',1,'ada',1,'2026-11-15T19:30:51.844Z',NULL,'2026-11-15T19:30:51.887Z','completed',NULL,2,NULL);
INSERT INTO "turns" VALUES('y7uw','turn/2',1,'rex',1,'2026-11-15T19:30:51.890Z',NULL,'2026-11-15T19:30:51.936Z','completed',NULL,4,NULL);
INSERT INTO "turns" VALUES('ydyc','clarify/1/said/1',1,'mira',1,'2026-11-15T19:30:57.634Z',NULL,'2026-11-15T19:30:57.702Z','completed',NULL,3,NULL);
INSERT INTO "turns" VALUES('ydyc','manager/T1/at/1/instruct/said/1',1,'mira',2,'2026-11-15T19:30:57.833Z',NULL,'2026-11-15T19:30:57.913Z','completed',NULL,10,NULL);
INSERT INTO "turns" VALUES('ydyc','manager/T1/at/3/review/said/1',1,'mira',2,'2026-11-15T19:30:58.166Z',NULL,'2026-11-15T19:30:58.241Z','completed',NULL,16,NULL);
INSERT INTO "turns" VALUES('ydyc','manager/T2/at/1/propose/said/1',1,'mira',2,'2026-11-15T19:30:58.294Z',NULL,'2026-11-15T19:30:58.350Z','completed',NULL,20,NULL);
INSERT INTO "turns" VALUES('ydyc','manager/T2/at/3/instruct/said/1',1,'mira',2,'2026-11-15T19:30:58.461Z',NULL,'2026-11-15T19:30:58.516Z','completed',NULL,26,NULL);
INSERT INTO "turns" VALUES('ydyc','manager/T2/at/5/review/said/1',1,'mira',2,'2026-11-15T19:30:58.696Z',NULL,'2026-11-15T19:30:58.760Z','completed',NULL,32,NULL);
INSERT INTO "turns" VALUES('ydyc','manager/T3/at/1/instruct/said/1',1,'mira',2,'2026-11-15T19:30:58.828Z',NULL,'2026-11-15T19:30:58.877Z','completed',NULL,36,NULL);
INSERT INTO "turns" VALUES('ydyc','manager/T3/at/3/review/said/1',1,'mira',2,'2026-11-15T19:30:59.080Z',NULL,'2026-11-15T19:30:59.142Z','completed',NULL,42,NULL);
INSERT INTO "turns" VALUES('ydyc','manager/T3/at/5/review/said/1',1,'mira',2,'2026-11-15T19:30:59.401Z',NULL,'2026-11-15T19:30:59.469Z','completed',NULL,48,NULL);
INSERT INTO "turns" VALUES('ydyc','plan/1/try/1/said/1',1,'mira',1,'2026-11-15T19:30:57.718Z',NULL,'2026-11-15T19:30:57.800Z','completed',NULL,6,NULL);
INSERT INTO "turns" VALUES('ydyc','ticket/T1/at/2/work/said/1',1,'wren',2,'2026-11-15T19:30:57.980Z',NULL,'2026-11-15T19:30:58.052Z','completed',NULL,13,NULL);
INSERT INTO "turns" VALUES('ydyc','ticket/T2/at/2/discuss/said/1',1,'wren',2,'2026-11-15T19:30:58.398Z',NULL,'2026-11-15T19:30:58.456Z','completed',NULL,23,NULL);
INSERT INTO "turns" VALUES('ydyc','ticket/T2/at/4/work/said/1',1,'wren',2,'2026-11-15T19:30:58.538Z',NULL,'2026-11-15T19:30:58.592Z','completed',NULL,29,NULL);
INSERT INTO "turns" VALUES('ydyc','ticket/T3/at/2/work/said/1',1,'wren',2,'2026-11-15T19:30:58.918Z',NULL,'2026-11-15T19:30:58.972Z','completed',NULL,39,NULL);
INSERT INTO "turns" VALUES('ydyc','ticket/T3/at/4/work/said/1',1,'wren',2,'2026-11-15T19:30:59.201Z',NULL,'2026-11-15T19:30:59.256Z','completed',NULL,45,NULL);
CREATE INDEX events_of_task ON events (task_id);
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;
CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are never deleted');
END;
CREATE INDEX audit_of_task ON audit (task_id);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is never changed');
END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is never deleted');
END;
CREATE INDEX questions_open ON questions (task_id) WHERE state = 'open';
CREATE UNIQUE INDEX tickets_in_order ON tickets (session_id, made);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('requests',2);
COMMIT;
PRAGMA user_version=3;
