import { matchesGlob } from 'node:path'

/**
 * Which test files are to find the faults of a part. Patterns below `test`, in the order in which the files run: those that
 * are fast first. Further files would find more, and take hours.
 */
const FAST = '/**/!(*.full).test.ts'

const PARTS: Readonly<Record<string, readonly string[]>> = {
  domain: [`domain${FAST}`, `gateway${FAST}`, `http${FAST}`, `limits${FAST}`],
  keys: [`keys${FAST}`],
  gateway: [`gateway${FAST}`, `http${FAST}`, 'observability/sampling.test.ts'],
  limits: [`limits${FAST}`, 'domain/rate-limit.test.ts', `gateway${FAST}`, 'redis/limits.full.test.ts'],
  upstream: [
    'upstream/!(deadlines|fair-shares|faults|forwarding-contract|pieces|queueing|*.full).test.ts',
    'upstream/*/!(cached-responses|circuit|coalescing|send|*.full).test.ts',
  ],
  // Those that wait for deadlines of connections come late: with a fault, they wait for long. Those of the console find least.
  http: [
    'http/!(client-connection|connection-limit|guard-connections|half-closed-clients|idle-connections).test.ts',
    'gateway/{create-gateway,deny,raw-denial,responses}.test.ts',
    'http/{client-connection,connection-limit,guard-connections,half-closed-clients,idle-connections}.test.ts',
    'console/{client-address,ended-streams,unread-bodies}.test.ts',
    'blackbox/{bad-requests,framing}.test.ts',
  ],
}

const AUDIT: readonly string[] = [
  'console/access/audit-signatures.test.ts',
  'console/admin-document.test.ts',
  'console/access/{audit-chain,audit-search,forged-audit}.test.ts',
  'console/access/{audited-changes,people,principal,every-call}.test.ts',
  'console/{housekeeping,backup-of-broken-audit,signing-secrets}.test.ts',
  'console/pages/{outlines,audit-filters,pages,page-links}.test.ts',
  'console/search/many-workspaces.test.ts',
  'cli/audit-verify.test.ts',
  'console/access/{audit-chain,audit-search,forged-audit,audit-queue}.full.test.ts',
]

/**
 * The tests that guard each folder of the console. They are named, because most of them send requests to a whole console:
 * no import and no path says which capability they are about. Those of the full suite are here where they guard what no fast
 * test can: the other database, commands, a connection that fails.
 */
const CONSOLE: Readonly<Record<string, readonly string[]>> = {
  announcing: [
    'console/{write-record,operation,outbox,recovery,sync,sync-many,revoke-all-waits,gateway-reports}.test.ts',
    'console/{stops,pages/change-steps}.test.ts',
    'console/{confirmations,heartbeat-pauses,region-outboxes,announcing,admin-document,signing-secrets}.test.ts',
    'console/{key-repository,revoke-all,housekeeping}.test.ts',
    'console/{postgres-locks,key-repository}.full.test.ts',
  ],
  'api-reference': [
    'console/{admin-document,admin-schemas}.test.ts',
    'console/pages/{api-page,pages,outlines,workspace-pages}.test.ts',
  ],
  audit: AUDIT,
  backup: [
    'console/{unfinished-files,damaged-page,backup-of-broken-audit,restore-revocations,foreign-schema,database-exits}.test.ts',
    'docs/operate.test.ts',
    'console/{database-copies,foreign-schema-postgres,database-exits-postgres}.full.test.ts',
  ],
  'key-service': [
    'console/{admin-schemas,shared-lookups,key-service,key-service-bodies}.test.ts',
    'console/{internal-listener,internal-tls,gateway-reports,unread-bodies}.test.ts',
    'console/{sync,confirmations,signing-secrets}.test.ts',
    'console/key-repository.full.test.ts',
  ],
  keys: [
    'console/change-progress.test.ts',
    'console/{admin-document,admin-schemas,admin-api,operation,key-as-resource,key-fields,explained-errors}.test.ts',
    `console/pages${FAST}`,
    'console/access/{roles,audited-changes,every-call,principal}.test.ts',
    'console/sign-in/{every-route,forged-requests,fields-in-urls}.test.ts',
    'console/{key-export,key-import,revoke-all-waits,signing-secrets}.test.ts',
    'cli/keys-{commands,search,pattern,export}.test.ts',
    'console/{key-repository,revoke-all,workspace-plan,confirmations}.test.ts',
  ],
  'keys/rows': [
    'console/{write-record,operation,outbox,recovery,sync,sync-many,restore-revocations,shared-lookups}.test.ts',
    'console/plan-counts.test.ts',
    'console/pages/{outlines,lists,key-changes}.test.ts',
    'console/{key-export,key-import,confirmations,webhooks,housekeeping}.test.ts',
    'console/{key-repository,revoke-all,workspace-plan}.test.ts',
    'console/{postgres-locks,key-repository}.full.test.ts',
  ],
  'keys/search': [
    `console/search${FAST}`,
    'console/{admin-document,key-as-resource,key-export}.test.ts',
    'console/pages/{outlines,lists,find-key,page-links,pages,plans}.test.ts',
    'cli/keys-{commands,search,pattern,export}.test.ts',
    'console/search/key-search.full.test.ts',
  ],
  leaks: [
    `console/leaks${FAST}`,
    'console/access/audited-changes.test.ts',
    'console/pages/{leak-notice,outlines}.test.ts',
    'console/webhooks.test.ts',
  ],
  'platform/access': [
    'console/{accepted-tokens,admin-document}.test.ts',
    'console/access/{principal,roles,admin-tokens,every-call,people,audited-changes}.test.ts',
  ],
  'platform/audit': AUDIT,
  // Without those that wait for time limits of PostgreSQL: a mutant would take minutes in each.
  'platform/database': [
    'console/{postgres-errors,postgres-address,postgres-tls,disk-trouble,query-parts,database-health,ids}.test.ts',
    'console/{migrations,change-writer,sqlite-schema,sqlite-files,sqlite-statements,database,foreign-schema}.test.ts',
    'console/{postgres-sessions,postgres-connections,pooled-sessions,postgres-locks}.full.test.ts',
    'console/foreign-schema-postgres.full.test.ts',
    'console/search/{key-search,many-workspaces}.test.ts',
    'console/{key-repository,next-release,database-unavailable,database-exits,housekeeping}.test.ts',
    'console/access/audit-search.test.ts',
    'console/{key-repository,next-release}.full.test.ts',
    'console/search/key-search.full.test.ts',
    'console/{sqlite-turns,postgres-start,postgres}.full.test.ts',
    'console/access/audit-search.full.test.ts',
  ],
  'platform/html': [
    `console/pages${FAST}`,
    'console/sign-in/{values,every-route,forged-requests,fields-in-urls}.test.ts',
    'console/access/roles.test.ts',
    'domain/{form/text,relative-time}.test.ts',
  ],
  'platform/http': [
    'console/{explained-errors,accepted-tokens,admin-document,admin-api,key-as-resource,operation}.test.ts',
    'console/{client-address,ended-streams,unread-bodies,internal-listener,internal-tls,unstorable-text}.test.ts',
    'console/access/{failed-tokens,every-call,admin-tokens,audit-search}.test.ts',
    'console/sign-in/{every-route,authorisation,values}.test.ts',
    'console/{key-export,key-import}.test.ts',
  ],
  'platform/jobs': [
    'console/{stops,housekeeping,outbox,webhooks,recovery,gateway-reports,sync}.test.ts',
    'console/usage/gather-reports.test.ts',
    `console/webhooks${FAST}`,
  ],
  'sign-in': [
    'console/sign-in/{values,claims,sessions,forged-requests}.test.ts',
    `console/sign-in${FAST}`,
    'console/access/{people,roles}.test.ts',
    'console/pages/{outlines,head,unknown-paths,page-links}.test.ts',
    'console/sign-in/several-consoles.full.test.ts',
  ],
  tokens: [
    'console/{admin-document,accepted-tokens}.test.ts',
    'console/access/{admin-tokens,token-use}.test.ts',
    'console/access/{failed-tokens,principal,every-call,audited-changes}.test.ts',
    'cli/tokens-commands.test.ts',
    'console/access/admin-tokens.full.test.ts',
  ],
  usage: [
    'console/admin-document.test.ts',
    `console/usage${FAST}`,
    'console/pages/{explain-refusal,limits-left,usage-chart,usage-pages,outlines}.test.ts',
    'cli/{keys-usage,refusals-list}.test.ts',
    'console/{stops,housekeeping}.test.ts',
    'console/usage/usage.full.test.ts',
  ],
  webhooks: [
    'console/{admin-document,admin-schemas}.test.ts',
    'console/pages/outlines.test.ts',
    `console/webhooks${FAST}`,
    'console/{stops,webhooks}.test.ts',
    'console/pages/deliveries.test.ts',
    'cli/webhooks-commands.test.ts',
  ],
  workspaces: [
    'console/pages/{outlines,workspace-pages,lists,find-key,page-links,pages}.test.ts',
    'console/sign-in/fields-in-urls.test.ts',
    'console/search/many-workspaces.test.ts',
    'console/access/roles.test.ts',
  ],
}

/** Of `app.ts` and the other files that are in none of these folders. */
const WHOLE_CONSOLE: readonly string[] = [`console${FAST}`]

/**
 * Shown first to a mutant of these sources that is loaded with them, such as one in a schema or a fixed text: these tests read
 * all of them, and take milliseconds.
 */
const READ_AT_LOAD: readonly (readonly [source: RegExp, test: string])[] = [
  [/^src\/console\/platform\/html\/paths\.ts$/, 'test/console/sign-in/values.test.ts'],
  [/^src\/console\/platform\/audit\/(?:mac|chain)\.ts$/, 'test/console/access/audit-signatures.test.ts'],
  [/^src\/console\/platform\/html\/assets\.ts$/, 'test/console/pages/pages.test.ts'],
  [
    /^src\/console\/platform\/database\/(?:database|sqlite\/(?:database|file))\.ts$/,
    'test/console/sqlite-files.test.ts',
  ],
  [/^src\/console\/platform\/database\/database-health\.ts$/, 'test/console/database-health.test.ts'],
  [/^src\/console\/platform\/database\/migrations\.ts$/, 'test/console/migrations.test.ts'],
  [/^src\/console\/platform\/database\/ids\.ts$/, 'test/console/ids.test.ts'],
  [/^src\/console\/platform\/database\/sqlite\/dialect\.ts$/, 'test/console/sqlite-statements.test.ts'],
  [/^src\/console\/platform\/database\/sqlite\/schema\.ts$/, 'test/console/sqlite-schema.test.ts'],
  [/^src\/console\/platform\/database\/postgres\/connection\.ts$/, 'test/console/postgres-address.test.ts'],
  [
    /^src\/console\/platform\/database\/postgres\/(?:errors|database)\.ts$/,
    'test/console/postgres-errors.test.ts',
  ],
  [
    /^src\/console\/platform\/database\/postgres\/database\.ts$/,
    'test/console/postgres-connections.full.test.ts',
  ],
  [
    /^src\/console\/platform\/database\/postgres\/(?:pool|database)\.ts$/,
    'test/console/postgres-sessions.full.test.ts',
  ],
  [
    /^src\/console\/platform\/database\/postgres\/schema\.ts$/,
    'test/console/foreign-schema-postgres.full.test.ts',
  ],
  [
    /^src\/console\/(?:.*\/api|keys\/(?:.*-calls|import-export)|.*\/fields|.*\/admin-api)\.ts$/,
    'test/console/admin-document.test.ts',
  ],
  [
    /^src\/console\/(?:.*pages?|platform\/html\/.*|usage\/(?:usage-chart|chart-range))\.ts$/,
    'test/console/pages/outlines.test.ts',
  ],
]

/** Whether a test file is to find the faults of this source, of the part that is tried. */
export function mayFind(part: string, test: string, source: string): boolean {
  if (part !== 'console') return true
  return testsOfConsole(source).some(pattern => matchesGlob(test, `test/${pattern}`))
}

/** @param sources paths of the mutants that are tried */
export function testsFor(part: string, sources: readonly string[]): readonly string[] {
  if (part !== 'console') return PARTS[part] ?? []
  return [...new Set(sources.flatMap(testsOfConsole))]
}

/** Every pattern that says which tests find the faults of a part, or read a source when it is loaded; without `test/`. */
export function allPatterns(): readonly string[] {
  const read = READ_AT_LOAD.map(([, test]) => test.replace('test/', ''))
  return [...Object.values(PARTS), ...Object.values(CONSOLE), WHOLE_CONSOLE, read].flat()
}

function testsOfConsole(source: string): readonly string[] {
  const [, , folder = '', inner = ''] = source.split('/')
  return CONSOLE[`${folder}/${inner}`] ?? CONSOLE[folder] ?? WHOLE_CONSOLE
}

/** @returns the test files that read what a source file declares when it is loaded */
export function readersOf(source: string): readonly string[] {
  return READ_AT_LOAD.flatMap(([sources, test]) => (sources.test(source) ? [test] : []))
}
