import { expect, test } from 'vitest'
import { apiPage, errorTable, scopeMissingResponse } from '../../../src/console/api-reference/api-page.ts'
import { denyScope } from '../../../src/domain/authorize.ts'
import { DENIAL_REASONS, denied } from '../../../src/domain/denial.ts'
import { describeApi } from '../../../src/domain/route/describe-api.ts'
import { createErrorResponse } from '../../../src/gateway/responses.ts'
import { startSignIn } from '../../support/signed-in.ts'

const plain = (text: string) =>
  text.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&#39;', "'")

test('the reference lists every error that a gateway answers, with its text', () => {
  const table = plain(String(errorTable()))
  for (const reason of DENIAL_REASONS) {
    const { status, body } = createErrorResponse(denied(reason))
    // The gateway itself has made this text.
    const { code, error } = JSON.parse(String(body)) as { code: string; error: string }
    const line = `${status}</th><td><code>${code}</code></td><td>${error}<`
    expect(table.split(line)).toHaveLength(2)
  }
})

test('the answer to a key without the scope is that of the gateway, with the name of the scope', () => {
  const { status, headers, body } = createErrorResponse(denyScope('files:read'))
  const shown = scopeMissingResponse('files:read')
  expect(shown).toContain(`HTTP/1.1 ${status} `)
  expect(shown).toContain(`WWW-Authenticate: ${headers['www-authenticate']}\n`)
  expect(shown.endsWith(`\n\n${body}`)).toBe(true)
})

test.each([
  ['https://api.example.com/', 30, true],
  ['https://api.example.com', 0, false],
  [undefined, 30, false],
])(
  'requests can be tried where the address of the API is set, unless that is switched off: %s, %s a minute',
  async (gatewayUrl, perMinute, canTry) => {
    const world = await startSignIn({
      signIn: { triedRequestsPerMinute: perMinute, ...(gatewayUrl === undefined ? {} : { gatewayUrl }) },
    })
    const ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
    const { text } = await ada.browser.visit('/workspaces/ws_1/api')
    expect(text.includes('Send request')).toBe(canTry)
    const { status } = await ada.browser.post('/workspaces/ws_1/api', { _csrf: ada.csrf, route: 'auth' })
    expect(status).toBe(canTry ? 422 : 404)
    const base = gatewayUrl?.replace(/\/$/, '')
    const [known, unknown] = [
      `The URL of the API is <code>${base}</code>.`,
      'In the commands, replace <code>$API</code> with the URL of the API.',
    ]
    expect([text.includes(known), text.includes(unknown)]).toEqual(
      gatewayUrl === undefined ? [false, true] : [true, false],
    )
  },
)

test('the reference says where keys come from, and shows the JSON Schema of a route’s response, its text escaped', () => {
  const schema = { type: 'object', description: '<b>files' }
  const route = {
    name: 'files',
    path: '/v1/{workspaceId}/files',
    scope: 'files:read',
    responseSchema: { file: 'files.schema.json', schema },
  }
  const scopes = { 'files:read': 'List files' }
  const document = describeApi({ routes: [route], scopes, console: {} }, '1.2.3')
  const frame = {
    ...{
      personName: 'Ada',
      workspaceId: 'ws_1',
      workspaceNames: {},
      mayChoose: false,
      mayChange: true,
      sessionExpired: false,
      leftOut: null,
      unusedClaims: [],
    },
    ...{ isAdministrator: false, csrfToken: '', nowMs: 0 },
  }
  const view = { workspaceId: 'ws_1', document, routes: [route], gatewayUrl: null, canTry: false }
  const text = String(apiPage(frame, view))
  expect(text).toContain('<a href="/workspaces/ws_1/keys/new">Issue a key</a> with the scopes you need.')
  expect(String(apiPage({ ...frame, mayChange: false }, view))).toContain(
    'Ask a manager of the workspace for a key with the scopes you need.',
  )
  expect(text).not.toContain('<b>files')
  expect(text).toContain('<code>files:read</code>')
  expect(text).not.toContain('`')
  expect(plain(text)).toContain(JSON.stringify(schema, null, 2))
  expect(
    String(apiPage(frame, { ...view, routes: [{ ...route, responseSchema: undefined }] })),
  ).not.toContain('JSON Schema of the response')
})
