import { describe, expect, test } from 'vitest'
import { planWebhookUrl } from '../../../src/console/webhooks/workspace-webhooks.ts'
import { isPublicAddress } from '../../../src/domain/form/address.ts'

const KEY = `wsk_${'A'.repeat(54)}`
const HTTPS =
  'an https: address of at most 2048 characters, without user or fragment, on port 443 or one from 1024'
const PUBLIC = 'an address that this console may send to: public, or allowed by its operator'
const LONGEST = 'https://hooks.example.com/'.padEnd(2_048, 'a')
const rules = { keyPrefix: 'wsk_', allowHttp: false, mayConnectTo: isPublicAddress }

describe('the address of a workspace’s webhook', () => {
  test.each([
    ['https://hooks.example.com', 'https://hooks.example.com/'],
    ['https://Hooks.Example.com:443/in?of=ws_1', 'https://hooks.example.com/in?of=ws_1'],
    ['https://hooks.example.com:8443/', 'https://hooks.example.com:8443/'],
    ['https://hooks.example.com:1024/', 'https://hooks.example.com:1024/'],
    [LONGEST, LONGEST],
    ['https://8.8.8.8/', 'https://8.8.8.8/'],
    ['https://[2606:4700::1111]/', 'https://[2606:4700::1111]/'],
  ])('%s is stored as %s', (text, stored) => {
    expect(planWebhookUrl(text, rules)).toEqual({ ok: true, value: stored })
  })

  test.each([
    ['', HTTPS],
    ['hooks.example.com', HTTPS],
    ['http://hooks.example.com/', HTTPS],
    ['ftp://hooks.example.com/', HTTPS],
    ['file:///etc/passwd', HTTPS],
    ['https://ada:secret@hooks.example.com/', HTTPS],
    ['https://:secret@hooks.example.com/', HTTPS],
    ['https://hooks.example.com/#part', HTTPS],
    ['https://hooks.example.com:22/', HTTPS],
    ['https://hooks.example.com:80/', HTTPS],
    ['https://hooks.example.com:1023/', HTTPS],
    ['https://hooks.example.com/#', HTTPS],
    ['https://hooks.example.com/ space', HTTPS],
    ['https://hooks.example.com/\r\nx: y', HTTPS],
    ['https://hööks.example.com/', HTTPS],
    [`https://hooks.example.com/${'a'.repeat(2_048 - 25)}`, HTTPS],
    [`https://hooks.example.com/${KEY}`, 'an address without an API key or token in it'],
    [
      `https://hooks.example.com/${KEY.replace(/^[a-z]+_/, 'pat_')}`,
      'an address without an API key or token in it',
    ],
    ['https://127.0.0.1/', PUBLIC],
    ['https://2130706433/', PUBLIC],
    ['https://0x7f.1/', PUBLIC],
    ['https://169.254.169.254/latest/meta-data', PUBLIC],
    ['https://[::ffff:10.0.0.1]/', PUBLIC],
    ['https://[fd00:ec2::254]/', PUBLIC],
  ])('is not %s', (text, expected) => {
    expect(planWebhookUrl(text, rules)).toEqual({ ok: false, field: 'url', expected })
  })

  test('may begin with http: if the operator allows it', () => {
    const planned = planWebhookUrl('http://hooks.example.com:8080/', { ...rules, allowHttp: true })
    expect(planned).toEqual({ ok: true, value: 'http://hooks.example.com:8080/' })
  })
})
