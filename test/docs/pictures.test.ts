import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { expect, test } from 'vitest'
import { drawPictures } from './pictures.ts'

const PICTURES = (await drawPictures()).map(picture => ({
  ...picture,
  name: basename(picture.file.pathname),
}))

test('the parts, the request lifecycle and regions have a picture, light and dark', () => {
  expect(PICTURES.map(({ name }) => name)).toEqual([
    'parts-light.svg',
    'parts-dark.svg',
    'regions-light.svg',
    'regions-dark.svg',
    'request-light.svg',
    'request-dark.svg',
  ])
})

test.each(PICTURES)('$name is current (npm run docs)', ({ file, svg }) => {
  expect(readFileSync(file, 'utf8')).toBe(svg)
})
