import { describe, expect, test } from 'vitest';
import { OutputArea } from '../../../executors/jupyter/output-area.ts';

const display = (data: object, id?: string) => ({
  data,
  metadata: {},
  transient: id === undefined ? {} : { display_id: id },
});

test('texts follow each other; what is displayed stands on lines of its own', () => {
  const area = new OutputArea();
  area.stream('stdout', 'printed');
  area.display('execute_result', display({ 'text/plain': 'result' }));
  area.display('display_data', display({ 'text/plain': 'shown' }));
  area.error({ ename: 'E', evalue: 'bad', traceback: ['\u001b[31mE\u001b[0m: bad'] });
  area.stream('stderr', 'end');
  const { head, isWhole, outputs } = area.finish();
  expect(head).toBe('printedresult\nshown\nE: badend');
  expect(isWhole).toBe(true);
  expect(outputs.map((output) => output['output_type'])).toEqual([
    'stream',
    'execute_result',
    'display_data',
    'error',
    'stream',
  ]);
});

describe('what is updated', () => {
  test('changes where it is shown, and is added where it is not', () => {
    const area = new OutputArea();
    area.display('display_data', display({ 'text/plain': 'old' }, 'a'));
    area.stream('stdout', '|');
    area.update(display({ 'text/plain': 'new' }, 'a'));
    area.update(display({ 'text/plain': 'of another cell' }, 'b'));
    expect(area.finish().head).toBe('new\n|of another cell');
  });

  test('images too', () => {
    const area = new OutputArea();
    area.display('display_data', display({ 'image/png': 'b2xk' }, 'a'));
    area.update(display({ 'image/png': 'bmV3\n' }, 'a'));
    expect(area.finish().images).toEqual(['data:image/png;base64,bmV3']);
  });
});

describe('bounds', () => {
  test('outputs without end: the first and the last are kept', () => {
    const area = new OutputArea();
    for (let index = 0; index < 5000; index += 1) area.display('display_data', display({ 'text/plain': `#${index}` }));
    const { head, tail, isWhole, outputs } = area.finish();
    expect(isWhole).toBe(false);
    expect(outputs).toHaveLength(1000);
    expect(head.startsWith('#0\n#1\n')).toBe(true);
    expect(tail.endsWith('\n#4998\n#4999')).toBe(true);
  });

  test('streams that take turns without end', () => {
    const area = new OutputArea();
    for (let index = 0; index < 40_000; index += 1)
      area.stream(index % 2 === 0 ? 'stdout' : 'stderr', `${index} `.repeat(50));
    const { head, tail, isWhole, outputs } = area.finish();
    expect(isWhole).toBe(false);
    expect(outputs.length).toBeLessThanOrEqual(1000);
    expect(head.startsWith('0 0 0 ')).toBe(true);
    expect(tail.endsWith(' 39999 ')).toBe(true);
  });

  test('bundles beyond the limit are named in place of being kept', () => {
    const area = new OutputArea();
    const large = 'x'.repeat(10 * 1024 * 1024);
    for (let index = 0; index < 5; index += 1) area.display('display_data', display({ 'image/png': large }));
    const { head, images, isWhole } = area.finish();
    expect(images).toHaveLength(3);
    expect(isWhole).toBe(true);
    expect(head.match(/image\/png: 10485760 characters left out/g)).toHaveLength(2);
  });
});

test('outputs of any shape do no harm', () => {
  const area = new OutputArea();
  area.display('display_data', {});
  area.display('display_data', display({ 'text/plain': ['a', 'b'], 'application/json': null }));
  area.update({ data: 5 });
  area.error({});
  area.clear(false);
  area.stream('stdout', 'ok');
  expect(area.finish()).toMatchObject({ head: 'ok', images: [], isWhole: true });
});
