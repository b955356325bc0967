-- The roles of tenants: each sees and changes the rows of its log alone.  A role that is not listed
-- here has what it was granted, as before; so processes of the previous release go on.  The policies
-- of the tables with a column `log` are made after every upgrade (postgres_tenants.py).
CREATE TABLE forum.tenant (
    log     integer PRIMARY KEY REFERENCES forum.log,
    role    name    NOT NULL UNIQUE
);

-- Whoever may use a table has to evaluate its policy.
GRANT SELECT ON forum.tenant TO PUBLIC;

ALTER TABLE forum.log ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON forum.log USING (
    id = coalesce((SELECT tenant.log FROM forum.tenant WHERE tenant.role = current_user), id)
);

-- Its rows belong to those of the quarantine, of which a tenant sees its own.
ALTER TABLE forum.quarantine_body ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON forum.quarantine_body USING (
    EXISTS (SELECT FROM forum.quarantine WHERE quarantine.id = quarantine_body.quarantine)
);

ALTER TABLE forum.tenant ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON forum.tenant USING (role = current_user);
