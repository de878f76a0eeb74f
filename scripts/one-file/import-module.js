import vm from 'node:vm';

// Code inside the executable can import nothing but built-in modules; a script with the ordinary loader can.
export function importModule(url) {
  const importModuleDynamically = vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;
  return new vm.Script('(url) => import(url)', { importModuleDynamically }).runInThisContext()(url);
}
