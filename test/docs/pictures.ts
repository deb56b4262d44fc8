import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { instance } from '@viz-js/viz'

const PICTURES = new URL('../../docs/pictures/', import.meta.url)
const FONT = 'Helvetica,Arial,sans-serif'

interface Palette {
  readonly background: string
  readonly text: string
  readonly line: string
  /** Fill and border of the parts of each class. */
  readonly parts: Readonly<Record<'postern' | 'store' | 'outside' | 'refusal', [string, string]>>
}

const PALETTES: Readonly<Record<'light' | 'dark', Palette>> = {
  light: {
    background: '#ffffff',
    text: '#1c2430',
    line: '#5b6675',
    parts: {
      postern: ['#dfeafd', '#2f6fde'],
      store: ['#fdf1d8', '#b07d16'],
      outside: ['#f0f2f5', '#8a94a3'],
      refusal: ['#fde5e3', '#c4372c'],
    },
  },
  dark: {
    background: '#0d1117',
    text: '#e6eaf0',
    line: '#98a3b3',
    parts: {
      postern: ['#16305c', '#5b93f5'],
      store: ['#3d2f0d', '#d3a13c'],
      outside: ['#222a35', '#7d8797'],
      refusal: ['#4a1b18', '#ee7268'],
    },
  },
}

export interface Picture {
  readonly file: URL
  readonly svg: string
}

/** @returns each graph of `docs/pictures` as a light and a dark SVG */
export async function drawPictures(): Promise<Picture[]> {
  const graphviz = await instance()
  const sources = globSync('*.dot', { cwd: fileURLToPath(PICTURES) }).sort()
  return sources.flatMap(source => {
    const svg = graphviz.renderString(readFileSync(new URL(source, PICTURES), 'utf8'), {
      format: 'svg',
      graphAttributes: { bgcolor: 'transparent', fontname: FONT, fontsize: 14, pad: 0.2 },
      nodeAttributes: { fontname: FONT, fontsize: 14, shape: 'box', style: 'rounded', margin: '0.2,0.1' },
      edgeAttributes: { fontname: FONT, fontsize: 13, arrowsize: 0.7 },
    })
    return Object.entries(PALETTES).map(([scheme, palette]) => ({
      file: new URL(source.replace('.dot', `-${scheme}.svg`), PICTURES),
      svg: svg.replace(/<svg [^>]*>/, opening => `${opening}\n<style>\n${styleOf(palette)}\n</style>`),
    }))
  })
}

/**
 * Style rules override the attributes that Graphviz writes. The font is smaller than the one Graphviz reserves space
 * for, because some readers' fonts are wider than Helvetica.
 */
function styleOf({ background, text, line, parts }: Palette): string {
  const rules = Object.entries(parts).map(
    ([name, [fill, border]]) => `.${name} path, .${name} polygon { fill: ${fill}; stroke: ${border} }`,
  )
  return [
    `svg { background: ${background} }`,
    `text { fill: ${text}; font-size: 11px }`,
    '.node text:first-of-type { font-size: 13px; font-weight: 600 }',
    `.edge path { fill: none; stroke: ${line} }`,
    `.edge polygon { fill: ${line}; stroke: ${line} }`,
    ...rules,
    `.refused path { fill: none; stroke: ${parts.refusal[1]} }`,
    `.refused polygon { fill: ${parts.refusal[1]}; stroke: ${parts.refusal[1]} }`,
  ].join('\n')
}
