import { basename } from 'node:path'
import { describe, expect, it } from 'vitest'
import { MINIMAL, mountedSecrets, NAME, render, type Values, WITH_CONSOLE } from '../support/chart.ts'
import { textAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

/** `helm template` prints no notes, so an extra object renders them. */
const READER = `
apiVersion: v1
kind: ConfigMap
metadata: { name: notes }
data:
  text: |-
    {{- include "postern.notes" . | nindent 4 }}
`

function notesOf(values: Values): string {
  return textAt(render({ ...values, extraObjects: [READER] }).get('ConfigMap', 'notes'), 'data.text')
}

const INGRESS = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'ingress' } } }

const QUIET = {
  ...MINIMAL,
  config: {
    ...MINIMAL.config,
    gateway: { trustedProxies: ['10.0.0.0/8'] },
    console: {
      publicUrl: 'https://keys.example.com/',
      oidc: { issuer: 'https://login.example.com', clientId: 'postern' },
    },
  },
  secrets: {
    ...MINIMAL.secrets,
    keys: { signingSecrets: { existingSecret: 'keys' } },
    keyService: { token: { existingSecret: 'keys' } },
    console: { adminToken: { existingSecret: 'admin' } },
    database: { url: { existingSecret: 'database' } },
  },
  image: { ...MINIMAL.image, digest: `sha256:${'0'.repeat(64)}` },
  networkPolicy: { enabled: true, gatewayFrom: [INGRESS], consoleFrom: [INGRESS] },
  console: { enabled: true },
  gateway: { ingress: { enabled: true, hosts: [{ host: 'api.example.com' }] } },
}

describe.skipIf(!has(HELM))('the installation notes', () => {
  it('say where the API is, how to issue the first key, and how to test the release', () => {
    const notes = notesOf({ ...MINIMAL, console: { enabled: true } })
    expect(notes).toContain(`http://${NAME}-gateway.default.svc:80/api/v1`)
    expect(notes).toContain(`exec statefulset/${NAME}-console -- `)
    expect(notes).toContain('--url http://127.0.0.1:8081')
    const file = /--token-file (\S+)/.exec(notes)?.[1] ?? ''
    const rendering = render({ ...MINIMAL, console: { enabled: true } })
    expect(mountedSecrets(rendering, 'console')).toHaveProperty([basename(file)])
    expect(notesOf(QUIET)).toContain(`exec deployment/${NAME}-console -- `)
    expect(notes).toContain('helm -n default test acme')
  })

  it('say where users sign in, and the redirect URI for the provider', () => {
    const notes = notesOf(QUIET)
    expect(notes).toContain('Users sign in at https://keys.example.com. ')
    expect(notes).toContain('redirect URI https://keys.example.com/sign-in/callback\n')
    expect(notesOf({ ...MINIMAL, console: { enabled: true } })).not.toContain('redirect URI')
  })

  it('do not mention a console that is not installed, and say that no keys can be issued', () => {
    const notes = notesOf(MINIMAL)
    expect(notes).not.toContain('Issue the first key')
    expect(notes).toContain('This release cannot issue keys')
  })

  it('say what the gateways of other regions need, and where the console of a region is', () => {
    const redis = { url: 'redis://redis.eu' }
    const { keys } = QUIET.secrets
    const notes = notesOf({
      ...QUIET,
      config: {
        ...QUIET.config,
        region: 'eu',
        regions: [
          { name: 'eu', redis },
          { name: 'us', redis },
        ],
      },
      secrets: { ...QUIET.secrets, redis: {} },
      gateway: { ...QUIET.gateway, config: { redis } },
    })
    expect(notes).toContain('The console announces changes to the regions eu, us.')
    const url = 'https://keys.eu.internal:8082'
    const inRegion = notesOf({
      ...MINIMAL,
      config: { ...MINIMAL.config, region: 'us', keyService: { url } },
      secrets: { ...MINIMAL.secrets, keyService: { token: keys.signingSecrets } },
    })
    expect(inRegion).toContain(`The gateways belong to the region us. Its console is behind ${url}`)
    expect(inRegion).not.toContain('without TLS')
  })

  it('contain no warnings if there is no reason for one', () => {
    expect(notesOf(QUIET)).not.toContain('Warnings')
  })

  it.each([
    ['one pod', { gateway: { ...QUIET.gateway, replicas: 1 } }, 'Set gateway.replicas to 2 or more'],
    [
      'no disruption budget',
      { gateway: { ...QUIET.gateway, podDisruptionBudget: { enabled: false } } },
      'Set gateway.podDisruptionBudget.enabled',
    ],
    ['no Redis', { secrets: { ...QUIET.secrets, redis: {} } }, 'Set secrets.redis.url.existingSecret'],
    ['no route from outside', { gateway: {} }, 'set gateway.httpRoute or gateway.ingress'],
    ['an untrusted proxy', { config: MINIMAL.config }, 'set config.gateway.trustedProxies'],
    [
      'a console without sign-in',
      { config: MINIMAL.config },
      'Set config.console.publicUrl and config.console.oidc',
    ],
    [
      'an untrusted proxy in front of the console',
      { console: { enabled: true, ingress: { enabled: true, hosts: [{ host: 'keys.example.com' }] } } },
      'set config.console.trustedProxies',
    ],
    [
      'a NetworkPolicy that admits every peer to the console',
      { networkPolicy: { enabled: true, gatewayFrom: [INGRESS] } },
      'name it in networkPolicy.consoleFrom.',
    ],
    [
      'a NetworkPolicy that admits every peer to a gateway behind an ingress',
      { networkPolicy: { enabled: true } },
      'name it in networkPolicy.gatewayFrom and networkPolicy.consoleFrom.',
    ],
    ['no NetworkPolicy', { networkPolicy: { enabled: false } }, 'set networkPolicy.enabled'],
    ['a tag', { image: MINIMAL.image }, 'set image.digest'],
    [
      'no memory limit',
      { gateway: { ...QUIET.gateway, resources: { limits: null } } },
      'Set gateway.resources.limits.memory',
    ],
    ['SQLite', { secrets: { ...QUIET.secrets, database: {} } }, 'back it up'],
    [
      'a monitor that could not be created',
      { monitoring: { podMonitor: { enabled: true } } },
      'the cluster does not know monitoring.coreos.com/v1/PodMonitor: the chart created no such object',
    ],
    [
      'alerts without runbooks',
      { monitoring: { prometheusRule: { enabled: true } } },
      'set monitoring.prometheusRule.runbookUrl',
    ],
    [
      'rules without a monitor',
      { monitoring: { prometheusRule: { enabled: true } } },
      'enable monitoring.podMonitor, or set monitoring.prometheusRule.selector',
    ],
    [
      'a token that crosses clusters unencrypted',
      {
        config: {
          ...QUIET.config,
          region: 'us',
          keyService: { url: 'http://keys.eu.internal:8082' },
        },
        console: { enabled: false },
      },
      'set an https address in config.keyService.url',
    ],
    [
      'private addresses within reach of webhooks',
      { config: { ...QUIET.config, webhooks: { workspaces: { enabled: true } } } },
      'set networkPolicy.identityProvider.to.',
    ],
    ['generated secrets', { secrets: WITH_CONSOLE.secrets }, 'Back it up'],
  ])('warn of %s', (_, values, sentence) => {
    expect(notesOf({ ...QUIET, ...values })).toContain(sentence)
  })
})
