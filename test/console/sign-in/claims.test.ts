import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type ClaimNames, readPerson } from '../../../src/console/sign-in/claims.ts'
import { isWorkspaceId } from '../../../src/domain/key/key-record.ts'
import { startSignIn } from '../../support/signed-in.ts'

const NAMES: ClaimNames = {
  workspacesClaim: 'workspaces',
  administratorValue: 'keys-admin',
  viewerValue: 'keys-viewer',
}
const ROLES = { administratorClaim: 'roles', viewerClaim: 'roles' }
const person = (claims: object, names: Partial<ClaimNames> = {}) =>
  readPerson({ sub: 'ada', ...claims }, { ...NAMES, ...names })
const shapesOf = (claims: object, names: Partial<ClaimNames> = {}) =>
  (person(claims, names)?.unusedClaims ?? []).map(({ setting, claim, shape }) => [setting, claim, shape])

/** What a person in too many groups gets from Entra. */
const OVERAGE = {
  _claim_names: { groups: 'src1' },
  _claim_sources: { src1: { endpoint: 'https://graph.microsoft.com/v1.0/users/x/getMemberObjects' } },
}
const GROUP_ID = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'

describe('the workspaces of a person are read from the claims of', () => {
  test.each<[provider: string, workspacesClaim: string, claims: object, workspaces: string[]]>([
    ['Keycloak, groups with their full path', 'groups', { groups: ['/ws_1', '/ws_2'] }, ['ws_1', 'ws_2']],
    ['Keycloak, groups without it', 'groups', { groups: ['ws_1'] }, ['ws_1']],
    ['Keycloak, one attribute of a user', 'workspaces', { workspaces: 'ws_1' }, ['ws_1']],
    [
      'Keycloak, an attribute as JSON text',
      'workspaces',
      { workspaces: '["ws_1","ws_2"]' },
      ['ws_1', 'ws_2'],
    ],
    [
      'Keycloak, roles of a realm',
      'realm_access.roles',
      { realm_access: { roles: ['ws_1', 'offline_access'] } },
      ['offline_access', 'ws_1'],
    ],
    [
      'Keycloak, roles of a client with a dot in its id',
      'resource_access.a.b.roles',
      { resource_access: { 'a.b': { roles: ['ws_1'] } } },
      ['ws_1'],
    ],
    ['Entra, groups', 'groups', { groups: [GROUP_ID] }, [GROUP_ID]],
    [
      'Auth0, a claim with an address as its name',
      'https://example.com/workspaces',
      { 'https://example.com/workspaces': ['ws_1'] },
      ['ws_1'],
    ],
    [
      'Auth0, an address with a claim within',
      'https://example.com/app.workspaces',
      { 'https://example.com/app': { workspaces: 'ws_1' } },
      ['ws_1'],
    ],
    ['Cognito, groups', 'cognito:groups', { 'cognito:groups': ['ws_1'] }, ['ws_1']],
    [
      'Cognito, an attribute with JSON text',
      'custom:workspaces',
      { 'custom:workspaces': ' [ "ws_1" ]' },
      ['ws_1'],
    ],
    ['Okta, groups among others', 'groups', { groups: ['Everyone at work', 'ws_1'] }, ['ws_1']],
    [
      'GitLab, groups beside a group within another',
      'groups_direct',
      { groups_direct: ['ws_1', 'team/ws_2'] },
      ['ws_1'],
    ],
  ])('%s', (_, workspacesClaim, claims, workspaces) => {
    expect(person(claims, { workspacesClaim })?.workspaces).toEqual(workspaces)
    expect(shapesOf(claims, { workspacesClaim })).toEqual([])
  })
})

describe('a claim that cannot be used grants nothing, and is named with its shape', () => {
  const reference =
    'sent as a reference (an overage, with _claim_names or hasgroups in its place), not as a value'
  test.each<[provider: string, claims: object, shape: string]>([
    ['Entra, a person in too many groups', OVERAGE, reference],
    ['Entra, the same in an implicit flow', { hasgroups: true }, reference],
    ['Entra, the same as a text', { hasgroups: 'true' }, reference],
    ['references that are null', { _claim_names: null }, 'missing or empty'],
    ['Keycloak, groups within groups', { groups: ['/customers/ws_1', '/ws 2'] }, 'a path of nested groups'],
    [
      'Keycloak, one group within another as a text',
      { groups: '/customers/ws_1' },
      'a path of nested groups',
    ],
    [
      'Cognito, several values of SAML',
      { groups: '[ws_1, ws_2]' },
      'a text that begins like a JSON list but is not valid JSON',
    ],
    ['a text separated by blanks', { groups: 'ws_1 ws_2' }, 'a text with blanks'],
    ['a text separated by commas', { groups: 'ws_1, ws_2' }, 'a text with commas'],
    ['a text of another kind', { groups: 'a/b' }, 'a text that is no workspace id'],
    ['JSON text of an object', { groups: '{"ws_1":true}' }, 'a text that is no workspace id'],
    ['ZITADEL, an object', { groups: { ws_1: { '123': 'example.com' } } }, 'an object'],
    ['a number', { groups: 12345 }, 'a number'],
    ['a boolean', { groups: true }, 'a boolean'],
    ['a list of objects', { groups: [{ id: 'ws_1' }] }, 'a list that contains an object'],
    ['a list of numbers', { groups: [7] }, 'a list that contains a number'],
    ['JSON text of a list of numbers', { groups: '[7]' }, 'a list that contains a number'],
    ['a list of lists', { groups: [['ws_1']] }, 'a list that contains a list'],
    ['a list of names', { groups: ['Domain Users'] }, 'a list without a workspace id'],
    ['an empty list', { groups: [] }, 'an empty list'],
    ['a list of an empty text', { groups: [''] }, 'an empty list'],
    ['JSON text of an empty list', { groups: '[]' }, 'an empty list'],
    ['an empty text', { groups: '' }, 'missing or empty'],
    ['null', { groups: null }, 'missing or empty'],
    ['no claim', {}, 'missing or empty'],
  ])('%s', (_, claims, shape) => {
    const names = { workspacesClaim: 'groups' }
    expect(person(claims, names)?.workspaces).toEqual([])
    expect(shapesOf(claims, names)).toEqual([['workspacesClaim', 'groups', shape]])
  })

  test('and a claim of another name is not said to be with the groups of Entra', () => {
    expect(shapesOf({ hasgroups: true })).toEqual([['workspacesClaim', 'workspaces', 'missing or empty']])
  })

  test('and what can be read of a list counts', () => {
    const claims = { workspaces: ['ws_1', 7] }
    expect(person(claims)?.workspaces).toEqual(['ws_1'])
    expect(shapesOf(claims)).toEqual([['workspacesClaim', 'workspaces', 'a list that contains a number']])
  })

  test('but an administrator needs no other claim', () => {
    const claims = { ...OVERAGE, roles: ['keys-admin'] }
    const names = { ...ROLES, viewerClaim: 'groups', workspacesClaim: 'groups' }
    expect(person(claims, names)).toMatchObject({ administrator: true })
    expect(shapesOf(claims, names)).toEqual([])
  })
})

describe('a role', () => {
  test.each<[unknown, boolean]>([
    [['/keys-admin'], true],
    ['/keys-admin', true],
    ['["keys-admin"]', true],
    ['["not keys-admin"]', false],
    [['/team/keys-admin'], false],
    ['keys-admin other', false],
    ['other,keys-admin', false],
    ['[keys-admin]', false],
  ])('of an administrator in %j: %s', (roles, isAdministrator) => {
    expect(person({ roles, workspaces: 'ws_1' }, ROLES)?.administrator).toBe(isAdministrator)
  })

  test('of a nested group is granted to the whole path', () => {
    const names = { ...ROLES, administratorValue: '/team/keys-admin' }
    expect(person({ roles: ['/team/keys-admin'] }, names)?.administrator).toBe(true)
    expect(person({ roles: ['/keys-admin', 'keys-admin', '/x/team/keys-admin'] }, names)?.administrator).toBe(
      false,
    )
  })

  test.each<[object, string]>([
    [{ roles: { 'keys-viewer': {} } }, 'an object'],
    [{ roles: 7 }, 'a number'],
    [{ roles: [{ name: 'keys-viewer' }] }, 'a list that contains an object'],
    [{ roles: '[keys-viewer]' }, 'a text that begins like a JSON list but is not valid JSON'],
    [{ roles: ['/team/keys-viewer'] }, 'a path of nested groups'],
  ])('with fewer rights is given where the claim of viewers cannot be read: %j', (claims, shape) => {
    const names = { viewerClaim: 'roles' }
    expect(person({ ...claims, workspaces: 'ws_1' }, names)?.role).toBe('viewer')
    expect(shapesOf({ ...claims, workspaces: 'ws_1' }, names)).toEqual([['viewerClaim', 'roles', shape]])
  })

  test('with fewer rights is given to a person with too many groups', () => {
    expect(person({ ...OVERAGE, workspaces: 'ws_1' }, { viewerClaim: 'groups' })?.role).toBe('viewer')
  })

  test('within a text of several is not granted, and the text is named', () => {
    const names = { administratorClaim: 'roles' }
    const claims = { roles: 'keys-admin other', workspaces: 'ws_1' }
    expect(shapesOf(claims, names)).toEqual([['administratorClaim', 'roles', 'a text with blanks']])
    expect(shapesOf({ ...claims, roles: 'Sales North' }, names)).toEqual([])
  })

  test('may be configured with the slash that Keycloak writes', () => {
    const names = { administratorClaim: 'roles', administratorValue: '/keys-admin' }
    expect(person({ roles: ['/keys-admin'] }, names)?.administrator).toBe(true)
    expect(person({ roles: ['keys-admin'] }, names)?.administrator).toBe(false)
  })

  test.each<unknown>([['/team/other'], ['team/keys-viewer'], ['keys-viewer other'], 'team/keys-viewer'])(
    'with fewer rights is not given to a person in other groups, and nothing is said of them: %j',
    roles => {
      const claims = { roles, workspaces: 'ws_1' }
      expect(person(claims, { viewerClaim: 'roles' })).toEqual({
        subject: 'ada',
        name: 'ada',
        workspaces: ['ws_1'],
        administrator: false,
        role: 'manager',
      })
    },
  )

  test('that is granted needs nothing else of its claim', () => {
    const claims = { roles: ['keys-viewer', 7], workspaces: 'ws_1' }
    expect(person(claims, { viewerClaim: 'roles' })).toMatchObject({ role: 'viewer' })
    expect(shapesOf(claims, { viewerClaim: 'roles' })).toEqual([])
  })
})

test.each<[object, string]>([
  [{ claim: 'keys-admin x' }, 'Send a list: a text is one value, never several'],
  [{ claim: ['/team/keys-admin'] }, 'Set the whole path as the value to look for'],
  [{ claim: [7] }, 'Send a text or a list of texts'],
  [{ claim: '[keys-admin' }, 'Send a list, or its JSON text'],
  [
    { _claim_names: { claim: 'src1' } },
    'Let the provider send only the groups that are assigned to the console, or application roles',
  ],
])('what to change is said of a role in %j', (claims, remedy) => {
  const read = person({ ...claims, workspaces: 'ws_1' }, { administratorClaim: 'claim' })
  expect(read?.unusedClaims).toMatchObject([{ setting: 'administratorClaim', remedy }])
})

test.each<[unknown, string]>([
  [true, 'Send a text or a list of texts'],
  [[], 'Send the ids of the person’s workspaces in this claim'],
  [['/team/ws_1'], 'Only a group at the top level, such as /ws_1, names a workspace'],
  [['Domain Users'], 'Send the ids of workspaces'],
  ['ws_1 ws_2', 'Send a list, or the id of one workspace alone'],
])('what to change is said of workspaces in %j', (workspaces, remedy) => {
  expect(person({ workspaces })?.unusedClaims).toMatchObject([{ setting: 'workspacesClaim', remedy }])
})

describe('for any claim', () => {
  const names = { workspacesClaim: 'claim', administratorClaim: 'claim', viewerClaim: 'claim' }
  const groups = fc.array(
    fc.oneof(fc.constantFrom('ws_1', '/ws_2', '/a/ws_3', 'keys-admin', '/keys-admin'), fc.string()),
  )
  const anyClaim = fc.oneof(
    fc.anything({ maxDepth: 3, withNullPrototype: true }),
    fc.jsonValue(),
    groups,
    groups.map(list => JSON.stringify(list)),
    groups.map(list => list.join(' ')),
  )

  test('every workspace is an exact text of the claim, but for the slash of a group; without one the claim is named', () => {
    fc.assert(
      fc.property(anyClaim, claim => {
        const read = person({ claim }, names)
        const texts = new Set(typeof claim === 'string' ? [claim, ...itemsOf(claim)] : [claim].flat())
        for (const id of read?.workspaces ?? []) {
          expect(isWorkspaceId(id)).toBe(true)
          expect(texts.has(id) || texts.has(`/${id}`)).toBe(true)
        }
        const isNamed = read?.unusedClaims?.some(({ setting }) => setting === 'workspacesClaim') === true
        expect(read?.administrator === true || (read?.workspaces.length ?? 0) > 0 || isNamed).toBe(true)
      }),
    )
  })

  test('what is said of it holds no value of the claim', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z]{12}$/), fc.constantFrom(' ', ',', '/'), (secret, between) => {
        for (const claim of [
          secret + between + secret,
          [`/${secret}/x`],
          { [secret]: secret },
          `[${secret}`,
        ]) {
          expect(JSON.stringify(person({ claim }, names)?.unusedClaims)).not.toContain(secret)
        }
      }),
    )
  })
})

function itemsOf(text: string): unknown[] {
  try {
    const parsed: unknown = JSON.parse(text)
    return Array.isArray(parsed) ? parsed : []
  } catch {
    return []
  }
}

describe('a person whose claim cannot be read sees why on every page, and the log says it', () => {
  test.each<[string, object, string]>([
    ['too many groups at Entra', OVERAGE, 'an overage'],
    ['nested groups at Keycloak', { groups: ['/customers/ws_1'] }, 'a path of nested groups'],
    ['a text separated by blanks', { groups: 'ws_1 ws_2' }, 'a text with blanks'],
    ['no claim', {}, 'missing or empty'],
  ])('%s', async (_, sent, shape) => {
    const { signedIn, provider, log } = await startSignIn({ signIn: { oidc: { workspacesClaim: 'groups' } } })
    provider.tamper = ({ claims }) => Object.assign(claims, sent)
    const { page, browser } = await signedIn({ sub: 'ada' })
    for (const text of [page.text, (await browser.visit('/workspaces/ws_1/keys')).text]) {
      expect(text).toContain('<code>groups</code>')
      expect(text).toContain(shape)
    }
    expect(log).toContainEqual(
      expect.objectContaining({
        msg: 'claim of a person not used',
        actor: 'person:ada',
        setting: 'console.oidc.workspacesClaim',
        claim: 'groups',
        shape: expect.stringContaining(shape),
        remedy: expect.stringMatching(/^[A-Z]/),
      }),
    )
  })

  test('but not a person whose claims can be read', async () => {
    const { signedIn, provider, log } = await startSignIn({ signIn: { oidc: { workspacesClaim: 'groups' } } })
    provider.tamper = ({ claims }) => Object.assign(claims, { groups: ['/ws_1'] })
    const { page } = await signedIn({ sub: 'ada' })
    expect(page.url).toContain('/workspaces/ws_1')
    expect(page.text).not.toContain('at the sign-in provider is')
    expect(JSON.stringify(log)).not.toContain('not used')
  })
})
