import type { SourceChange } from '../support/copied-sources.ts'

/**
 * A made-up field of a key that decides, written as docs/architecture.md says: `onlyRoute` is the one route that the key may use, null if it
 * may use each.
 */
type Changes = Readonly<Record<string, readonly SourceChange[]>>

/** What is written first: its type, its place among what gateways store, and its column. The compiler names the rest. */
export const TYPE_GRANT_COLUMN: Changes = {
  'domain/key/key-fields.ts': [
    [
      '  readonly plan: string | null\n',
      '  readonly plan: string | null\n  readonly onlyRoute: string | null\n',
    ],
  ],
  'domain/key/key-record.ts': [["  | 'plan'\n", "  | 'plan'\n  | 'onlyRoute'\n"]],
  'console/platform/database/tables.ts': [
    [
      '  readonly plan: string | null\n',
      '  readonly plan: string | null\n  readonly only_route: string | null\n',
    ],
  ],
}

/** How people choose it: in the admin API, on pages and on the command line. */
const CHOICE: Changes = {
  'domain/key/key-fields.ts': [
    [
      'const CONTROL_CHARACTER',
      "export const ONLY_ROUTE_EXPECTED = 'null or the name of a route in lower case'\nconst CONTROL_CHARACTER",
    ],
    ['allowedCidrs: [], plan: null }', 'allowedCidrs: [], plan: null, onlyRoute: null }'],
    [
      '  readonly plan?: string | null | undefined\n',
      '  readonly plan?: string | null | undefined\n  readonly onlyRoute?: string | null | undefined\n',
    ],
    [
      '  return { ok: true, value: { name, ...texts, allowedCidrs, plan } }\n',
      `  const onlyRoute = chooseText(requested.onlyRoute, current.onlyRoute)
  if (onlyRoute !== null && !/^[a-z]{1,32}$/.test(onlyRoute)) return wrong('onlyRoute', ONLY_ROUTE_EXPECTED)
  return { ok: true, value: { name, ...texts, allowedCidrs, plan, onlyRoute } }
`,
    ],
  ],
  'console/platform/http/fields.ts': [
    ['  NAME_EXPECTED,\n', '  NAME_EXPECTED,\n  ONLY_ROUTE_EXPECTED,\n'],
    [
      '} satisfies Readonly<Record<Exclude<ChosenField',
      `  onlyRoute: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: ONLY_ROUTE_EXPECTED })),
} satisfies Readonly<Record<Exclude<ChosenField`,
    ],
    ['  rotatedFrom: textOrNull,\n', '  onlyRoute: textOrNull,\n  rotatedFrom: textOrNull,\n'],
  ],
  'console/keys/key-form.ts': [
    [
      '{ name, allowedCidrs, plan, ...texts }: ChosenFields',
      '{ name, allowedCidrs, plan, onlyRoute, ...texts }: ChosenFields',
    ],
    ["    plan: plan ?? '',\n", "    plan: plan ?? '',\n    onlyRoute: onlyRoute ?? '',\n"],
    [
      "    plan: textField(fields, 'plan').trim(),\n",
      "    plan: textField(fields, 'plan').trim(),\n    onlyRoute: textField(fields, 'onlyRoute').trim(),\n",
    ],
    ['  allowedCidrs,\n  plan,\n', '  allowedCidrs,\n  plan,\n  onlyRoute,\n'],
    ['splitList(allowedCidrs), plan }', 'splitList(allowedCidrs), plan, onlyRoute }'],
    [
      '  { allowedCidrs, plan }: ChosenForm,\n  problems',
      '  { allowedCidrs, plan, onlyRoute }: ChosenForm,\n  problems',
    ],
    [
      '    plan: planInput(plan, problems, knownPlans),\n',
      `    plan: planInput(plan, problems, knownPlans),
    onlyRoute: textInput(
      { name: 'onlyRoute', label: RESTRICTION_LABELS.onlyRoute, hint: 'Empty for every route', problems },
      onlyRoute,
      html\`type="text"\`,
    ),
`,
    ],
    ["  plan: 'Plan',\n", "  plan: 'Plan',\n  onlyRoute: 'Only route',\n"],
    [
      'restrictionFacts({ allowedCidrs, plan }: ChosenFields)',
      'restrictionFacts({ allowedCidrs, plan, onlyRoute }: ChosenFields)',
    ],
    ["    plan: plan ?? '',\n  }\n", "    plan: plan ?? '',\n    onlyRoute: onlyRoute ?? '',\n  }\n"],
  ],
  'cli/options/key-fields.ts': [
    ['  readonly plan?: string\n', '  readonly plan?: string\n  readonly onlyRoute?: string\n'],
    [
      '  plan: {\n',
      `  onlyRoute: {
    name: 'only-route',
    make: () => new Option('--only-route <name>', 'the only route that may be used with the key'),
    what: 'the only route',
    cleared: null,
  },
  plan: {
`,
    ],
    ['allowCidr, plan, ...texts }: FieldOptions', 'allowCidr, plan, onlyRoute, ...texts }: FieldOptions'],
    ['allowedCidrs: allowCidr, plan }', 'allowedCidrs: allowCidr, plan, onlyRoute }'],
    [
      'restrictionFacts({ allowedCidrs = [], plan }: ShownKey)',
      'restrictionFacts({ allowedCidrs = [], plan, onlyRoute }: ShownKey)',
    ],
    [
      "    plan: ['Plan',",
      "    onlyRoute: ['Only route', onlyRoute == null ? null : plainText(onlyRoute)],\n    plan: ['Plan',",
    ],
  ],
}

/** The row. */
const ROW: Changes = {
  'console/schema.ts': [
    [
      // Behind that of the text.
      /\}\n$/,
      `  '9999_only_route': migrationOf((_dialect, text) => [sql\`alter table keys add column only_route \${text}\`]),
}
`,
    ],
  ],
  'console/platform/database/key-row.ts': [
    [
      '    rotatedFrom: row.rotated_from,\n',
      '    onlyRoute: row.only_route,\n    rotatedFrom: row.rotated_from,\n',
    ],
    [
      '    rotated_from: record.rotatedFrom,\n',
      '    only_route: record.onlyRoute,\n    rotated_from: record.rotatedFrom,\n',
    ],
  ],
}

/** On the wire a record with it has a schema of its own: a gateway of the release before would overlook it, and so refuses it. */
const WIRE: Changes = {
  'domain/wire.ts': [
    ['const PLAN_SCHEMA_VERSION = 3\n', 'const PLAN_SCHEMA_VERSION = 3\nconst ROUTE_SCHEMA_VERSION = 4\n'],
    ["'allowedCidrs' | 'plan'>", "'allowedCidrs' | 'plan' | 'onlyRoute'>"],
    [
      '  const { suspendedAt, allowedCidrs, plan } = json\n',
      '  const { suspendedAt, allowedCidrs, plan, onlyRoute } = json\n',
    ],
    ['...cidrs, ...named }\n', '...cidrs, ...named, ...(onlyRoute === null ? {} : { onlyRoute }) }\n'],
    [
      `schemaVersion({ suspendedAtMs, allowedCidrs, plan }: KeyGrant): number {
`,
      `schemaVersion({ suspendedAtMs, allowedCidrs, plan, onlyRoute }: KeyGrant): number {
  if (onlyRoute !== null) return ROUTE_SCHEMA_VERSION
`,
    ],
    [
      'if (!SCHEMA_VERSIONS.includes(v)) return',
      'if (!SCHEMA_VERSIONS.includes(v) && v !== ROUTE_SCHEMA_VERSION) return',
    ],
    [
      "  const { hint = '', plan = null } = json\n",
      "  const { hint = '', plan = null, onlyRoute = null } = json\n",
    ],
    [
      '  if (allowedCidrs === null || !isVersion(version)) return null\n',
      `  if (allowedCidrs === null || !isVersion(version)) return null
  if (onlyRoute !== null && typeof onlyRoute !== 'string') return null
`,
    ],
    ['    plan,\n    version,\n', '    plan,\n    onlyRoute,\n    version,\n'],
    [
      'const { suspendedAtMs, allowedCidrs, plan, ...unsigned } = restrictions',
      'const { suspendedAtMs, allowedCidrs, plan, onlyRoute, ...unsigned } = restrictions',
    ],
    [
      '    ...(schema >= PLAN_SCHEMA_VERSION ? [plan] : []),\n',
      '    ...(schema >= PLAN_SCHEMA_VERSION ? [plan] : []),\n    ...(onlyRoute === null ? [] : [onlyRoute]),\n',
    ],
  ],
}

const DECISION: Changes = {
  'domain/key/key-record.ts': [
    ['allowedCidrs: cidrs, ...uncompared', 'allowedCidrs: cidrs, onlyRoute, ...uncompared'],
    [
      '  const isLessInSomeWay =\n',
      '  const isLessInSomeWay =\n    (other.onlyRoute !== null && onlyRoute !== other.onlyRoute) ||\n',
    ],
    [
      '      cidrs.length !== others.length)\n',
      '      onlyRoute !== other.onlyRoute ||\n      cidrs.length !== others.length)\n',
    ],
  ],
  'domain/authorize.ts': [
    [
      '    denyMissingScope(match, grant) ??\n',
      '    denyMissingScope(match, grant) ??\n    denyOtherRoute(match, grant) ??\n',
    ],
    [
      '/** @param scope the route',
      `function denyOtherRoute({ route }: RouteMatch, { onlyRoute }: KeyGrant): Denial | null {
  return onlyRoute === null || route.name === onlyRoute ? null : denied('route_not_allowed')
}

/** @param scope the route`,
    ],
  ],
  'domain/denial.ts': [
    [
      '  malformed_request: {\n',
      `  route_not_allowed: {
    status: 403,
    code: 'route_not_allowed',
    text: 'The API key must not be used for this route',
    responsible: 'client',
    countedAs: 'decision',
  },
  malformed_request: {
`,
    ],
  ],
  'console/api-reference/api-page.ts': [
    [
      "  '404 not_found': {\n",
      `  '403 route_not_allowed': { meaning: 'The key is for another route', advice: 'Use another key' },
  '404 not_found': {
`,
    ],
  ],
}

/** All that is written for the field, in the order of the recipe. */
export const DECIDING_FIELD: readonly Changes[] = [TYPE_GRANT_COLUMN, CHOICE, WIRE, DECISION, ROW]
