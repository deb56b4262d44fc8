import { describe, expect, test } from 'vitest'
import { planWebhookUrl } from '../../../src/console/webhooks/workspace-webhooks.ts'
import { isPublicAddress } from '../../../src/domain/address/public-address.ts'

const KEY = `wsk_${'A'.repeat(54)}`
const rules = { keyPrefix: 'wsk_', allowHttp: false, mayConnectTo: isPublicAddress }

describe('the address of a workspace’s webhook', () => {
  test.each([
    ['https://hooks.example.com', 'https://hooks.example.com/'],
    ['https://Hooks.Example.com:443/in?of=ws_1', 'https://hooks.example.com/in?of=ws_1'],
    ['https://hooks.example.com:8443/', 'https://hooks.example.com:8443/'],
    ['https://8.8.8.8/', 'https://8.8.8.8/'],
    ['https://[2606:4700::1111]/', 'https://[2606:4700::1111]/'],
  ])('%s is stored as %s', (text, stored) => {
    expect(planWebhookUrl(text, rules)).toEqual({ ok: true, value: stored })
  })

  test.each([
    ['', 'https:'],
    ['hooks.example.com', 'https:'],
    ['http://hooks.example.com/', 'https:'],
    ['ftp://hooks.example.com/', 'https:'],
    ['file:///etc/passwd', 'https:'],
    ['https://ada:secret@hooks.example.com/', 'without user'],
    ['https://:secret@hooks.example.com/', 'without user'],
    ['https://hooks.example.com/#part', 'fragment'],
    ['https://hooks.example.com:22/', 'port'],
    ['https://hooks.example.com:80/', 'port'],
    ['https://hooks.example.com/ space', 'https:'],
    ['https://hooks.example.com/\r\nx: y', 'https:'],
    ['https://hööks.example.com/', 'https:'],
    [`https://hooks.example.com/${'a'.repeat(2_048)}`, '2048'],
    [`https://hooks.example.com/${KEY}`, 'without an API key'],
    ['https://127.0.0.1/', 'public'],
    ['https://2130706433/', 'public'],
    ['https://0x7f.1/', 'public'],
    ['https://169.254.169.254/latest/meta-data', 'public'],
    ['https://[::ffff:10.0.0.1]/', 'public'],
    ['https://[fd00:ec2::254]/', 'public'],
  ])('is not %s', (text, expected) => {
    const planned = planWebhookUrl(text, rules)
    expect(planned).toMatchObject({ ok: false, field: 'url' })
    expect(planned.ok ? '' : planned.expected).toContain(expected)
  })

  test('may begin with http: if the operator allows it', () => {
    const planned = planWebhookUrl('http://hooks.example.com:8080/', { ...rules, allowHttp: true })
    expect(planned).toEqual({ ok: true, value: 'http://hooks.example.com:8080/' })
  })
})
