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
      '  readonly allowedCidrs: readonly string[]\n',
      '  readonly allowedCidrs: readonly string[]\n  readonly onlyRoute: string | null\n',
    ],
  ],
  'domain/key/key-record.ts': [["  | 'allowedCidrs'\n", "  | 'allowedCidrs'\n  | 'onlyRoute'\n"]],
  'console/platform/database/tables.ts': [
    [
      '  readonly allowed_cidrs: string | null\n',
      '  readonly allowed_cidrs: string | null\n  readonly only_route: string | null\n',
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
    ['eachText(() => null), allowedCidrs: [] }', 'eachText(() => null), allowedCidrs: [], onlyRoute: null }'],
    [
      '  readonly allowedCidrs?: readonly string[] | null | undefined\n',
      '  readonly allowedCidrs?: readonly string[] | null | undefined\n  readonly onlyRoute?: string | null | undefined\n',
    ],
    [
      '  return { ok: true, value: { name, ...texts, allowedCidrs } }\n',
      `  const onlyRoute = chooseText(requested.onlyRoute, current.onlyRoute)
  if (onlyRoute !== null && !/^[a-z]{1,32}$/.test(onlyRoute)) return wrong('onlyRoute', ONLY_ROUTE_EXPECTED)
  return { ok: true, value: { name, ...texts, allowedCidrs, onlyRoute } }
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
      '{ name, allowedCidrs, ...texts }: ChosenFields',
      '{ name, allowedCidrs, onlyRoute, ...texts }: ChosenFields',
    ],
    [
      "allowedCidrs: allowedCidrs.join('\\n') }",
      "allowedCidrs: allowedCidrs.join('\\n'), onlyRoute: onlyRoute ?? '' }",
    ],
    [
      "    allowedCidrs: readLines(fields, 'allowedCidrs'),\n",
      "    allowedCidrs: readLines(fields, 'allowedCidrs'),\n    onlyRoute: textField(fields, 'onlyRoute').trim(),\n",
    ],
    ['  name,\n  allowedCidrs,\n', '  name,\n  allowedCidrs,\n  onlyRoute,\n'],
    ['allowedCidrs: splitCidrs(allowedCidrs) }', 'allowedCidrs: splitCidrs(allowedCidrs), onlyRoute }'],
    [
      'restrictionInputs({ allowedCidrs }: ChosenForm',
      'restrictionInputs({ allowedCidrs, onlyRoute }: ChosenForm',
    ],
    [
      /return (textArea\(\{ name: 'allowedCidrs'.*\))\n/,
      `const cidrs = textArea({ name: 'allowedCidrs', label: ALLOWED_ADDRESSES, hint, problems }, allowedCidrs)
  const field = { name: 'onlyRoute', label: ONLY_ROUTE, hint: 'Leave it empty to allow every route', problems }
  return html\`\${cidrs}\${textInput(field, onlyRoute, html\`type="text"\`)}\`
`,
    ],
    ["'Allowed addresses'\n", "'Allowed addresses'\nconst ONLY_ROUTE = 'Only route'\n"],
    [
      'restrictionFacts({ allowedCidrs }: ChosenFields): Html | null {\n',
      'restrictionFacts({ allowedCidrs, onlyRoute }: ChosenFields): Html {\n',
    ],
    [
      / {2}if \(allowedCidrs\.length === 0\) return null\n.*\n/,
      `  const fact = (label: string, text: string) =>
    text === '' ? null : html\`<div><dt>\${label}</dt><dd>\${text}</dd></div>\`
  return html\`\${fact(ALLOWED_ADDRESSES, allowedCidrs.join(', '))}\${fact(ONLY_ROUTE, onlyRoute ?? '')}\`
`,
    ],
    [
      '  allowedCidrs: ALLOWED_ADDRESSES,\n',
      '  allowedCidrs: ALLOWED_ADDRESSES,\n  onlyRoute: ONLY_ROUTE,\n',
    ],
  ],
  'cli/options/key-fields.ts': [
    [
      '  readonly allowCidr?: readonly string[]\n',
      '  readonly allowCidr?: readonly string[]\n  readonly onlyRoute?: string\n',
    ],
    [
      '  return command.addOption(allowCidrOption())',
      "  command.option('--only-route <name>', 'the only route that may be used with the key')\n  return command.addOption(allowCidrOption())",
    ],
    ['{ name, allowCidr, ...texts }: FieldOptions', '{ name, allowCidr, onlyRoute, ...texts }: FieldOptions'],
    ['allowedCidrs: allowCidr }', 'allowedCidrs: allowCidr, onlyRoute }'],
    ['cleared: [] },\n', "cleared: [] },\n  'only-route': { field: 'onlyRoute', cleared: null },\n"],
    [
      'restrictionFacts({ allowedCidrs = [] }: ShownKey)',
      'restrictionFacts({ allowedCidrs = [], onlyRoute }: ShownKey)',
    ],
    [
      / {2}return (\[\['Allowed networks'.*)\]\n/,
      `  const networks = allowedCidrs.length === 0 ? 'any' : allowedCidrs.map(plainText).join(' ')
  return [['Allowed networks', networks], ['Only route', plainText(onlyRoute ?? 'any')]]
`,
    ],
  ],
}

/** The row. */
const ROW: Changes = {
  'console/schema.ts': [
    [
      /^\}\n$/m,
      "  '9999_only_route': database => database.schema.alterTable('keys').addColumn('only_route', 'text').execute(),\n}\n",
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
    [
      'const RESTRICTED_SCHEMA_VERSION = 2\n',
      'const RESTRICTED_SCHEMA_VERSION = 2\nconst ROUTE_SCHEMA_VERSION = 3\n',
    ],
    ["'suspendedAt' | 'allowedCidrs'>", "'suspendedAt' | 'allowedCidrs' | 'onlyRoute'>"],
    [
      '  const { suspendedAt, allowedCidrs } = json\n',
      '  const { suspendedAt, allowedCidrs, onlyRoute } = json\n',
    ],
    [
      '  return { v: RESTRICTED_SCHEMA_VERSION, ...body, ...suspended, ...cidrs }\n',
      `  const route = onlyRoute === null ? {} : { onlyRoute }
  return { v: schemaVersion(record), ...body, ...suspended, ...cidrs, ...route }
`,
    ],
    [
      `function isRestricted({ suspendedAtMs, allowedCidrs }: KeyGrant): boolean {
  return suspendedAtMs !== null || allowedCidrs.length > 0
}
`,
      `function isRestricted(grant: KeyGrant): boolean {
  return schemaVersion(grant) !== SCHEMA_VERSION
}

function schemaVersion({ suspendedAtMs, allowedCidrs, onlyRoute }: KeyGrant): number {
  if (onlyRoute !== null) return ROUTE_SCHEMA_VERSION
  return suspendedAtMs !== null || allowedCidrs.length > 0 ? RESTRICTED_SCHEMA_VERSION : SCHEMA_VERSION
}
`,
    ],
    [
      'if (v !== SCHEMA_VERSION && v !== RESTRICTED_SCHEMA_VERSION) return',
      'if (v !== SCHEMA_VERSION && v !== RESTRICTED_SCHEMA_VERSION && v !== ROUTE_SCHEMA_VERSION) return',
    ],
    ["  const { hint = '' } = json\n", "  const { hint = '', onlyRoute = null } = json\n"],
    [
      '  if (allowedCidrs === null || !isVersion(version)) return null\n',
      `  if (allowedCidrs === null || !isVersion(version)) return null
  if (onlyRoute !== null && typeof onlyRoute !== 'string') return null
`,
    ],
    ['    allowedCidrs,\n    version,\n', '    allowedCidrs,\n    onlyRoute,\n    version,\n'],
    [
      'const { suspendedAtMs, allowedCidrs, ...unsigned } = restrictions',
      'const { suspendedAtMs, allowedCidrs, onlyRoute, ...unsigned } = restrictions',
    ],
    ['    restricted ? RESTRICTED_SCHEMA_VERSION : SCHEMA_VERSION,\n', '    schemaVersion(grant),\n'],
    [
      '    ...(restricted ? [suspendedAtMs, allowedCidrs] : []),\n',
      '    ...(restricted ? [suspendedAtMs, allowedCidrs] : []),\n    ...(onlyRoute === null ? [] : [onlyRoute]),\n',
    ],
  ],
}

const DECISION: Changes = {
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
}

/** All that is written for the field, in the order of the recipe. */
export const DECIDING_FIELD: readonly Changes[] = [TYPE_GRANT_COLUMN, CHOICE, WIRE, DECISION, ROW]
