import { expect, test } from 'vitest'
import { mistakesOf } from './examples.ts'

/** Without the folder of the file. */
const shownFor = (file: string, environment: NodeJS.ProcessEnv = {}) =>
  mistakesOf({ file, environment }).map(text => text.replace(/^.*\/(?=settings\.yaml)/, ''))

test('each wrong value of a settings file is named with file and line, all at once', () => {
  const file = `# A comment
upstream:
  headersTimeoutMs: soon

  conections: 5
redis:
  commandTimeoutMs:
    1.5
log: { level: loud }
console:
  port: 8080
`
  expect(shownFor(file).sort()).toEqual([
    'settings.yaml:11: console.port is 8080, which gateway.port already uses',
    'settings.yaml:3: upstream.headersTimeoutMs must be a whole number from 1 to 3600000',
    'settings.yaml:5: upstream.conections is not a setting (did you mean upstream.connections?)',
    'settings.yaml:7: redis.commandTimeoutMs must be a whole number from 1 to 3600000',
    expect.stringMatching(/^settings\.yaml:9: log\.level must be one of trace, /),
  ])
})

test.each([
  ['a map', 'routes:\n  one:\n    path: /one/{workspaceId}\n    scopes: [x]\n'],
  ['a list', 'routes:\n  - path: /one/{workspaceId}\n    name: one\n    scopes: [x]\n'],
])('a mistake within a route of %s is named with the line of the route', (_, file) => {
  expect(shownFor(file)).toEqual([
    'settings.yaml:2: routes, at one has an unknown field: scopes (did you mean scope?)',
  ])
})

test('a value behind an alias is named with the line that the alias stands for', () => {
  const file = 'routes:\n  one: &one\n    path: /one/{workspaceId}\n    scope: 5\n  two: *one\n'
  expect(shownFor(file)).toEqual([
    expect.stringMatching(/^settings\.yaml:4: routes, at one\.scope must be /),
    expect.stringMatching(/^settings\.yaml:4: routes, at two\.scope must be /),
  ])
})

test('a route that needs an unknown scope is named with the line that names it', () => {
  const file = 'routes:\n  one:\n    path: /one/{workspaceId}\n    scope: files:fly\n'
  expect(shownFor(file)).toEqual([
    expect.stringMatching(/^settings\.yaml:4: routes, at one\.scope is files:fly, which is not in scopes/),
  ])
})

test('every place where a file is no YAML is named, without its text', () => {
  const mistakes = shownFor('log: { level: info }\nlog: { level: info }\nkeys: "secret\n')
  expect(mistakes.length).toBeGreaterThan(1)
  for (const text of mistakes)
    expect(text).toMatch(
      /^settings\.yaml:\d: is not valid YAML: [a-z ]+$|^settings\.yaml:\d is not valid YAML: [a-z ]+$/,
    )
  expect(mistakes.join()).not.toContain('secret')
})

test('a variable is named as itself, also where a file sets the same', () => {
  expect(shownFor('log: { level: info }', { POSTERN_LOG_LEVEL: 'loud' })).toEqual([
    expect.stringMatching(/^POSTERN_LOG_LEVEL must be one of /),
  ])
})
