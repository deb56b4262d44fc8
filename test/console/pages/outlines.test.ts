import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { BrowserDouble, type Visit } from '../../support/browser-double.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { outlineOf } from '../../support/page-outline.ts'
import { type SignedIn, startSignIn } from '../../support/signed-in.ts'

const WRITE = 'POSTERN_OUTLINES=1 npx vitest run test/console/pages/outlines.test.ts'
const WRITES = process.env['POSTERN_OUTLINES'] === '1'
const W = '/workspaces/ws_1'
const UNKNOWN_KEY = 'key_01ARZ3NDEKTSV4RRFFQ69G5FAV'

type Person = 'ada' | 'vera' | 'root' | 'none' | 'stranger'
/** Who, and the path of a page, or of a form with its fields. `{name}` is the id of the key with that name. */
type Scene = readonly [who: Person, path: string, fields?: Readonly<Record<string, string>>]

const CLAIMS = {
  ada: { sub: 'ada', name: 'Ada', workspaces: ['ws_1', 'ws_2'] },
  vera: { sub: 'vera', name: 'Vera', workspaces: ['ws_1'], roles: ['viewer'] },
  root: { sub: 'root', name: 'Root', workspaces: [], roles: ['admin'] },
  none: { sub: 'none', name: 'None', workspaces: [] },
} as const

const POLICIES = [
  { name: 'minute', per: 'key', route: 'files', requests: 60, windowSeconds: 60 },
  { name: 'quota', per: 'workspace', requests: 10_000, window: 'month' },
] as const

/** Keys in each state, requests and refusals of them, and who looks at them. The clock stands still. */
async function setStage() {
  const clock = new ManualClock()
  const world = await startSignIn({
    limits: { policies: [...POLICIES], plans: { business: { policies: [] }, free: { policies: [] } } },
    signIn: {
      gatewayUrl: 'https://api.example.com',
      oidc: { administratorClaim: 'roles', administratorValue: 'admin', viewerClaim: 'roles' },
    },
    workspaceWebhooks: { enabled: true },
    parts: { clock },
  })
  const ids = new Map<string, string>()
  const issue = async (name: string, more: object = {}) => {
    const asked = { name, scopes: ['files:read'], ...more }
    const { key } = (await world.send('POST', `/admin/v1${W}/keys`, asked)).body
    ids.set(name, key.id)
    clock.advance(1000)
    return key.id
  }
  const change = async (name: string, step: string, body: object = {}) => {
    const { body: changed } = await world.send('POST', `/admin/v1/keys/${ids.get(name)}/${step}`, body)
    clock.advance(1000)
    return changed
  }
  const allowedCidrs = ['192.0.2.0/24']
  await issue('plain')
  await issue('full', { description: 'Owned by <b>', scopes: ['files:read', 'workspace:read'], allowedCidrs })
  await issue('revoked')
  await issue('suspended')
  await issue('soon', { expiresInDays: 3 })
  await issue('rotated')
  await change('revoked', 'revoke')
  await change('suspended', 'suspend')
  ids.set('successor', (await change('rotated', 'rotate')).key.id)
  const token = { name: 'ci', permissions: ['keys:write'], workspaces: ['ws_1'], expiresInDays: 30 }
  ids.set('token', (await world.send('POST', '/admin/v1/tokens', token)).body.token.id)
  const keyId = ids.get('plain') ?? ''
  const minute = Math.floor(clock.wallMs() / 60_000)
  const refused = { keyId, at: clock.wallMs(), route: 'files', address: '192.0.2.0/24', code: 'not_found' }
  const counts = [
    { keyId, minute, route: 'files', code: 'ok', count: 1200 },
    { keyId, minute, route: 'files', code: 'scope_missing', count: 3 },
    { keyId, minute: minute - 1440, route: 'workspace', code: 'ok', count: 1 },
  ]
  const month = Date.parse('2026-12-01T00:00:00Z')
  const window = { plan: null, requests: 60, used: 60, windowSeconds: 60, endsAt: clock.wallMs() + 30_000 }
  const limits = [
    { keyId, policy: 'minute', ...window },
    {
      workspaceId: 'ws_1',
      policy: 'quota',
      ...window,
      requests: 10_000,
      used: 8_012,
      windowSeconds: null,
      endsAt: month,
    },
  ]
  const refusals = [{ ...refused, reason: 'other_workspace', requestId: 'request-1' }]
  await world.send('POST', '/internal/v1/usage', {
    ...{ gateway: 'gateway-1.a1b2', sequence: 1, used: { [keyId]: clock.wallMs() } },
    ...{ counts, refusals, limits, omittedRefusals: [{ workspaceId: 'ws_1', count: 2 }] },
  })
  const people = new Map<Person, SignedIn>()
  return {
    async visit([who, path, fields]: Scene): Promise<Visit> {
      const named = (text: string) => text.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids.get(name) ?? '')
      const place = named(path)
      if (who === 'stranger') return world.browser().visit(place)
      const person = people.get(who) ?? (await world.signedIn({ ...CLAIMS[who] }))
      people.set(who, person)
      if (fields === undefined) return person.browser.visit(place)
      const { text } = await person.browser.visit(place)
      const once = /name="once" value="([^"]*)"/.exec(text)?.[1]
      const version = /name="version" value="([^"]*)"/.exec(text)?.[1]
      const own = { ...(once === undefined ? {} : { once }), ...(version === undefined ? {} : { version }) }
      return person.browser.post(place, {
        _csrf: BrowserDouble.csrfTokenIn({ text } as Visit),
        ...own,
        ...Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, named(value)])),
      })
    },
    clock,
  }
}

const SCENES: Readonly<Record<string, readonly Scene[]>> = {
  'keys-read': [
    ['ada', `${W}/keys`],
    ['ada', `${W}/keys?state=revoked&scope=files%3Aread&unused=never&sort=name`],
    ['ada', `${W}/keys?q=nothing`],
    ['ada', '/workspaces/ws_2/keys'],
    ['vera', `${W}/keys`],
    ['vera', `${W}/keys/{plain}`],
    ['ada', `${W}/keys/{plain}`],
    ['ada', `${W}/keys/{full}`],
    ['ada', `${W}/keys/{revoked}`],
    ['ada', `${W}/keys/{suspended}`],
    ['ada', `${W}/keys/{rotated}`],
    ['ada', `${W}/keys/{successor}`],
    ['ada', `${W}/keys/${UNKNOWN_KEY}`],
    ['root', '/keys?q=pla'],
    ['ada', '/find-key'],
    ['ada', '/find-key?workspace=ws_1'],
    ['ada', '/find-key', { key: `wsk_${'A'.repeat(54)}` }],
    ['ada', '/find-key', { key: 'not a key' }],
  ],
  'keys-change': [
    ['ada', `${W}/keys/new`],
    ['ada', `${W}/keys/new`, { name: '', expiry: 'date', date: 'never', allowedCidrs: 'office' }],
    ['ada', `${W}/keys/new`, { name: 'new', scopes: 'files:read', expiry: '30', date: '' }],
    ['ada', `${W}/keys/{plain}/edit`],
    ['ada', `${W}/keys/{plain}/edit`, { name: '', date: 'x', allowedCidrs: 'office' }],
    ['ada', `${W}/keys/{plain}/rotate`],
    ['ada', `${W}/keys/{plain}/rotate`, { overlap: 'x', expiry: 'x', date: '' }],
    ['ada', `${W}/keys/{plain}/rotate`, { overlap: '0', expiry: '30', date: '' }],
    ['ada', `${W}/keys/{rotated}/rotate`],
    ['ada', `${W}/keys/{rotated}/finish`],
    ['ada', `${W}/keys/{rotated}/finish`, {}],
    ['ada', `${W}/keys/selected`, { step: 'suspend', key: '{plain}' }],
    ['ada', `${W}/keys/selected`, { step: 'suspend', key: '{full}', confirmed: '1' }],
    ['ada', `${W}/keys/selected`, { step: 'resume', key: '{full}', confirmed: '1' }],
    ['ada', `${W}/keys/progress?key={full}`],
    ['ada', `${W}/keys/selected`, { step: 'revoke' }],
    ['ada', `${W}/keys/{revoked}/progress`],
    ['ada', `${W}/keys/{suspended}/resume`],
    ['ada', `${W}/keys/{suspended}/resume`, {}],
    ['ada', `${W}/keys/{full}/suspend`],
    ['ada', `${W}/keys/{full}/suspend`, {}],
    ['ada', `${W}/keys/{full}/revoke`],
    ['ada', `${W}/keys/{full}/revoke`, {}],
    ['root', `${W}/plan`],
    ['root', `${W}/plan`, { plan: 'free' }],
    ['root', `${W}/plan`, { plan: 'gold', confirmed: '1' }],
    ['root', `${W}/plan`, { plan: 'free', confirmed: '1' }],
    ['root', `${W}/plan/progress?key={suspended}`],
    ['ada', `${W}/keys`],
    ['root', `${W}/plan`, { plan: '', confirmed: '1' }],
    ['ada', `${W}/revoke-all`],
    ['ada', `${W}/revoke-all`, { workspace: 'ws_2' }],
    ['ada', `${W}/revoke-all`, { workspace: 'ws_1' }],
    ['vera', `${W}/keys/new`],
    ['vera', `${W}/plan`],
    ['root', `${W}/keys/new`],
    ['ada', `${W}/plan`],
  ],
  workspaces: [
    ['ada', '/workspaces'],
    ['none', '/workspaces'],
    ['root', '/workspaces'],
    ['root', '/workspaces?q=nothing'],
    ['root', '/workspaces?workspace=ws+1'],
    ['ada', '/workspaces/ws_9/keys'],
    ['ada', `${W}/nothing`],
  ],
  audit: [
    ['ada', `${W}/audit`],
    ['ada', `${W}/audit?action=key.revoked&from=2026-11-01T00%3A00`],
    ['ada', `${W}/audit?keyId={plain}`],
    ['ada', `${W}/audit?actor=person%3Anone`],
    ['ada', `${W}/audit?keyId=plain&action=x&from=today`],
    ['ada', '/workspaces/ws_2/audit'],
    ['root', '/audit?workspace=ws_1&action=key.revoked'],
    ['root', '/audit?action=token.issued'],
    ['root', '/audit?workspace=a+b'],
    ['ada', '/audit'],
  ],
  usage: [
    ['ada', `${W}/usage`],
    ['ada', `${W}/usage?range=30d`],
    ['ada', `${W}/usage?range=400d`],
    ['ada', '/workspaces/ws_2/usage'],
    ['ada', `${W}/refusals`],
    ['ada', `${W}/refusals?code=not_found`],
    ['ada', `${W}/refusals?keyId={plain}&from=2026-11-01T00%3A00`],
    ['ada', `${W}/refusals?keyId=plain&code=x&to=today`],
    ['ada', '/workspaces/ws_2/refusals'],
    ['root', '/refusals'],
    ['root', '/refusals?request=unknown&code=not_found'],
    ['ada', '/refusals'],
    ['ada', `${W}/limits`],
    ['vera', `${W}/limits`],
    ['ada', '/workspaces/ws_2/limits'],
    ['root', '/limits'],
    ['ada', '/limits'],
    ['root', '/plans'],
    ['ada', '/plans'],
    ['root', '/usage'],
    ['ada', '/usage'],
  ],
  webhooks: [
    ['ada', `${W}/deliveries`],
    ['ada', `${W}/webhook`],
    ['vera', `${W}/webhook`],
    ['ada', `${W}/webhook`, { url: 'http://10.0.0.1/' }],
    ['ada', `${W}/webhook`, { url: 'https://hooks.example.com/path' }],
    ['ada', `${W}/webhook`],
    ['vera', `${W}/webhook`],
  ],
  'sign-in': [
    ['stranger', '/sign-in'],
    ['stranger', '/sign-in?then=%2Fworkspaces%2Fws_1%2Fkeys'],
    ['stranger', `${W}/keys`],
    ['stranger', '/sign-in/callback?error=access_denied&state=x'],
    ['stranger', '/nothing'],
    ['ada', `${W}/keys?expired=1`],
    ['root', '/people'],
    ['root', '/people/end?subject=ada'],
    ['ada', '/people'],
    ['root', '/people/end', { subject: 'ada' }],
  ],
  tokens: [
    ['root', '/tokens'],
    ['root', '/tokens/new'],
    ['root', '/tokens/new', { name: '', template: 'none', workspaces: 'ws 1/', expiry: '' }],
    ['root', '/tokens/{token}/revoke'],
    ['root', '/tokens/{token}/revoke', {}],
    ['root', '/tokens'],
    ['root', '/tokens/made'],
    ['ada', '/tokens'],
  ],
  'api-reference': [
    ['ada', `${W}/api`],
    ['vera', `${W}/api`],
  ],
}

test.each(Object.keys(SCENES))(
  'pages of %s say and offer what the outline says: a change of any text, link or field shows in review',
  async name => {
    const stage = await setStage()
    const shown: string[] = []
    const frames = new Set<string>()
    for (const scene of SCENES[name] ?? []) {
      const [who, path, fields] = scene
      const { status, text } = await stage.visit(scene)
      const sent = fields === undefined ? '' : ` ${JSON.stringify(fields)}`
      const [title = '', ...lines] = outlineOf(text).split('\n')
      const main = lines.findIndex(line => line.startsWith('main'))
      const frame = lines.slice(0, main).join('\n')
      // What surrounds pages, once for those that have the same.
      const around = frames.has(frame) ? '(the same around)' : frame
      frames.add(frame)
      const page = [title, around, ...lines.slice(main)].join('\n')
      shown.push(`# ${who} ${path}${sent} ${status}\n${page}\n`)
      stage.clock.advance(1000)
    }
    const file = new URL(`outlines/${name}.txt`, import.meta.url)
    if (WRITES) {
      mkdirSync(new URL('outlines/', import.meta.url), { recursive: true })
      writeFileSync(file, shown.join('\n'))
    }
    expect(shown.join('\n'), `If the change is meant, write the outlines: ${WRITE}`).toBe(
      readFileSync(file, 'utf8'),
    )
  },
)
