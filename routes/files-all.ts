import type { FastifyInstance } from 'fastify';
import type { Guard } from '../src/guard.ts';
import { type DownloadOpener, downloadFilesRoute } from './download-files.get.ts';
import { deleteFileRoute, type FileRemover } from './files-content.delete.ts';
import { type FileOpener, getFileRoute } from './files-content.get.ts';
import { type FileStorer, putFileRoute } from './files-content.put.ts';
import { type FileSearcher, searchFilesRoute } from './files-search.post.ts';
import { type FileWatcher, watchFilesRoute } from './files-watch.get.ts';
import { type DirectoryLister, listFilesRoute } from './list-files.post.ts';
import { type UploadReceiver, uploadFileRoute } from './upload-file.post.ts';

/** What the routes about files need. */
export interface FileOperations {
  list(...args: Parameters<DirectoryLister>): ReturnType<DirectoryLister>;
  receiveUpload(...args: Parameters<UploadReceiver>): ReturnType<UploadReceiver>;
  openDownload(...args: Parameters<DownloadOpener>): ReturnType<DownloadOpener>;
  open(...args: Parameters<FileOpener>): ReturnType<FileOpener>;
  put(...args: Parameters<FileStorer>): ReturnType<FileStorer>;
  remove(...args: Parameters<FileRemover>): ReturnType<FileRemover>;
  search(...args: Parameters<FileSearcher>): ReturnType<FileSearcher>;
  watch(...args: Parameters<FileWatcher>): ReturnType<FileWatcher>;
}

/** Every route about files. */
export function fileRoutes(files: FileOperations, guard: Guard): ((app: FastifyInstance) => void)[] {
  return [
    listFilesRoute((path) => files.list(path)),
    uploadFileRoute((request, content) => files.receiveUpload(request, content)),
    downloadFilesRoute((path) => files.openDownload(path)),
    searchFilesRoute((request) => files.search(request)),
    watchFilesRoute((path) => files.watch(path), guard),
    getFileRoute((path) => files.open(path)),
    putFileRoute((request, content) => files.put(request, content)),
    deleteFileRoute((path, options) => files.remove(path, options)),
  ];
}
